package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// bounds keeps a spec within what the configuration permits. The namespace has secrets and service accounts that are not for
// the authors of templates: the tokens of other workspaces are among them. The node is not for them either.
func (p *reader) bounds(path string, s corev1.PodSpec) {
	if name := s.ServiceAccountName; name != "" && !slices.Contains(p.config.ServiceAccounts, name) {
		p.Add(path+".serviceAccountName", "%q is not one of service_accounts in the provider's configuration", name)
	}
	if name := s.DeprecatedServiceAccount; name != "" {
		p.Add(path+".serviceAccount", "is old: write serviceAccountName")
	}
	if len(s.EphemeralContainers) > 0 {
		p.Add(path+".ephemeralContainers", "cannot be in the template of a pod")
	}
	for at, name := range secretsOf(path, s) {
		if !slices.Contains(p.config.Secrets, name) {
			p.Add(at, "the secret %q is not one of secrets in the provider's configuration", name)
		}
	}
	for i, v := range s.Volumes {
		if of := v.PersistentVolumeClaim; of != nil && strings.HasPrefix(of.ClaimName, claimPrefix) {
			p.Add(fmt.Sprintf("%s.volumes[%d].persistentVolumeClaim.claimName", path, i), ofOthers, claimPrefix)
		}
		if of := v.Ephemeral; of != nil && of.VolumeClaimTemplate != nil {
			p.source(fmt.Sprintf("%s.volumes[%d].ephemeral.volumeClaimTemplate.spec", path, i), of.VolumeClaimTemplate.Spec)
		}
	}
	if p.config.Privileged {
		return
	}
	const why = "needs `privileged: true` in the provider's configuration"
	for field, set := range map[string]bool{"hostNetwork": s.HostNetwork, "hostPID": s.HostPID, "hostIPC": s.HostIPC} {
		if set {
			p.Add(path+"."+field, why)
		}
	}
	if s.SecurityContext != nil {
		p.hostProcess(path, s.SecurityContext.WindowsOptions, why)
	}
	for i, v := range s.Volumes {
		if v.HostPath != nil {
			p.Add(fmt.Sprintf("%s.volumes[%d].hostPath", path, i), why)
		}
	}
	for at, c := range containersOf(path, s) {
		for i, port := range c.Ports {
			if port.HostPort != 0 {
				p.Add(fmt.Sprintf("%s.ports[%d].hostPort", at, i), why)
			}
		}
		if security := c.SecurityContext; security != nil {
			if security.Privileged != nil && *security.Privileged {
				p.Add(at+".securityContext.privileged", why)
			}
			if security.ProcMount != nil && *security.ProcMount != corev1.DefaultProcMount {
				p.Add(at+".securityContext.procMount", why)
			}
			p.hostProcess(at, security.WindowsOptions, why)
			if security.Capabilities != nil {
				for i, name := range security.Capabilities.Add {
					if !slices.Contains(harmless, name) {
						p.Add(fmt.Sprintf("%s.securityContext.capabilities.add[%d]", at, i), why)
					}
				}
			}
		}
	}
}

// hostProcess is how a container is the node itself on Windows.
func (p *reader) hostProcess(path string, windows *corev1.WindowsSecurityContextOptions, why string) {
	if windows != nil && windows.HostProcess != nil && *windows.HostProcess {
		p.Add(path+".securityContext.windowsOptions.hostProcess", "%s", why)
	}
}

// harmless are the capabilities that the baseline of Kubernetes' pod security standards permits.
var harmless = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
	"SETUID", "SYS_CHROOT",
}

// secretsOf are the names of all secrets that a pod may use, by where they are named.
func secretsOf(path string, s corev1.PodSpec) map[string]string {
	all := map[string]string{}
	for i, r := range s.ImagePullSecrets {
		all[fmt.Sprintf("%s.imagePullSecrets[%d].name", path, i)] = r.Name
	}
	for i, v := range s.Volumes {
		at := fmt.Sprintf("%s.volumes[%d]", path, i)
		if v.Secret != nil {
			all[at+".secret.secretName"] = v.Secret.SecretName
		}
		if v.Projected != nil {
			for j, source := range v.Projected.Sources {
				if source.Secret != nil {
					all[fmt.Sprintf("%s.projected.sources[%d].secret.name", at, j)] = source.Secret.Name
				}
			}
		}
		for field, name := range driverSecrets(v.VolumeSource) {
			all[at+"."+field] = name
		}
	}
	for at, c := range containersOf(path, s) {
		for i, v := range c.Env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				all[fmt.Sprintf("%s.env[%d].valueFrom.secretKeyRef.name", at, i)] = v.ValueFrom.SecretKeyRef.Name
			}
		}
		for i, v := range c.EnvFrom {
			if v.SecretRef != nil {
				all[fmt.Sprintf("%s.envFrom[%d].secretRef.name", at, i)] = v.SecretRef.Name
			}
		}
	}
	return all
}

// driverSecrets are those that drivers of volumes are handed.
func driverSecrets(v corev1.VolumeSource) map[string]string {
	all := map[string]string{}
	add := func(field string, secret *corev1.LocalObjectReference) {
		if secret != nil {
			all[field] = secret.Name
		}
	}
	if v.CSI != nil {
		add("csi.nodePublishSecretRef.name", v.CSI.NodePublishSecretRef)
	}
	if v.FlexVolume != nil {
		add("flexVolume.secretRef.name", v.FlexVolume.SecretRef)
	}
	if v.ISCSI != nil {
		add("iscsi.secretRef.name", v.ISCSI.SecretRef)
	}
	if v.RBD != nil {
		add("rbd.secretRef.name", v.RBD.SecretRef)
	}
	if v.CephFS != nil {
		add("cephfs.secretRef.name", v.CephFS.SecretRef)
	}
	if v.ScaleIO != nil {
		add("scaleIO.secretRef.name", v.ScaleIO.SecretRef)
	}
	if v.StorageOS != nil {
		add("storageos.secretRef.name", v.StorageOS.SecretRef)
	}
	if v.Cinder != nil {
		add("cinder.secretRef.name", v.Cinder.SecretRef)
	}
	if v.AzureFile != nil {
		all["azureFile.secretName"] = v.AzureFile.SecretName
	}
	return all
}
