package kubernetes

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/xerrors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/tree"
)

const (
	// InstallCommand is the argument with which the prewarm binary copies itself to the path that is the next argument. The
	// binary of agent_image must end up in RunInstall.
	InstallCommand = "kubernetes-install"
	// AgentCommand is the subcommand that is the agent; the command to run under it follows a "--".
	AgentCommand = "agent"

	agentContainer = "prewarm-agent" // the init container, and the volume that it copies into
	tokenVolume    = "prewarm-token"

	agentDir    = "/.prewarm"
	programDir  = agentDir + "/program"
	agentBinary = programDir + "/prewarm"
	claimDir    = programDir + "/claim"
	tokenDir    = agentDir + "/token"

	imageBinary = "/prewarm" // in agent_image
	tokenKey    = "token"
	caKey       = "authorities.pem"
)

// RunInstall copies this program, and returns the exit status.
func RunInstall(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		return 2
	}
	if err := install(args[0]); err != nil {
		_, _ = io.WriteString(stderr, "copy agent: "+err.Error()+"\n")
		return 1
	}
	return 0
}

func install(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	return tree.WriteFile(path, from, tree.Options{Mode: new(fs.FileMode(0o755))})
}

// addAgent has the workspace's command run under the agent.
func (p *Provider) addAgent(req provider.CreateRequest, pod *corev1.Pod) error {
	server, err := req.Callback.Server(p.config.CallbackHost)
	if err != nil {
		return err
	}
	switch {
	case p.config.AgentImage == "":
		return provider.Permanent(xerrors.New("the template has an agent: name an image with the prewarm binary as agent_image in " +
			"the provider's configuration"))
	case provider.Loopback(server.Hostname()) && p.config.CallbackHost == "":
		return provider.Permanent(xerrors.Errorf("pods cannot reach the server at %s: set --access-url, or callback_host in the "+
			"provider's configuration", server))
	}
	var workspace *corev1.Container
	name := workspaceContainer(pod.Annotations, pod.Spec.Containers)
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			workspace = &pod.Spec.Containers[i]
		}
	}
	if len(workspace.Command) == 0 && len(workspace.Args) > 0 {
		return provider.Permanent(xerrors.Errorf("container %s has args and no command: under an agent it must say its command, "+
			"since Kubernetes does not tell what the image's entrypoint is", name))
	}
	command := []string{agentBinary, AgentCommand}
	if len(workspace.Command) > 0 {
		command = append(command, "--")
	}
	workspace.Command = append(command, workspace.Command...)
	workspace.Env = append(workspace.Env,
		corev1.EnvVar{Name: "PREWARM_AGENT_URL", Value: literal(server.String())},
		corev1.EnvVar{Name: "PREWARM_AGENT_TOKEN_FILE", Value: tokenDir + "/" + tokenKey},
		corev1.EnvVar{Name: "PREWARM_AGENT_DIR", Value: claimDir},
	)
	if len(req.Callback.CABundle) > 0 {
		workspace.Env = append(workspace.Env, corev1.EnvVar{Name: "PREWARM_AGENT_CA_FILE", Value: tokenDir + "/" + caKey})
	}
	program := corev1.VolumeMount{Name: agentContainer, MountPath: programDir}
	workspace.VolumeMounts = append(workspace.VolumeMounts, program,
		corev1.VolumeMount{Name: tokenVolume, MountPath: tokenDir, ReadOnly: true})
	pod.Spec.InitContainers = append([]corev1.Container{p.installer(program)}, pod.Spec.InitContainers...)
	everyone := int32(0o444) // of this container alone: Kubernetes does not know its user before the image is there
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: agentContainer, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: req.Name, DefaultMode: &everyone},
		}})
	return nil
}

// installer is the init container. It satisfies the restricted pod security standard, and quotas that ask for limits.
func (p *Provider) installer(program corev1.VolumeMount) corev1.Container {
	no, yes := false, true
	return corev1.Container{
		Name: agentContainer, Image: p.config.AgentImage, Command: []string{imageBinary, InstallCommand, agentBinary},
		VolumeMounts: []corev1.VolumeMount{program},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

// literal is a value in which Kubernetes is not to look for references to other variables.
func literal(value string) string { return strings.ReplaceAll(value, "$(", "$$(") }

// ownerOfSecret is the pod, or what that hangs on and what stays when it is stopped.
func ownerOfSecret(pod *corev1.Pod) metav1.OwnerReference {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	if anchor, _ := anchorOf(pod); anchor != nil {
		owner = *anchor
	}
	yes := true
	owner.Controller = &yes
	return owner
}

// controlled says whether a secret is the one of this pod.
func controlled(secret *corev1.Secret, pod *corev1.Pod) bool {
	by := metav1.GetControllerOf(secret)
	return by != nil && by.UID == ownerOfSecret(pod).UID
}

// secretOf is the secret with the token, owned by the pod.
func secretOf(req provider.CreateRequest, pod *corev1.Pod) *corev1.Secret {
	owner := ownerOfSecret(pod)
	yes := true
	data := map[string][]byte{tokenKey: []byte(req.Callback.Token + "\n")}
	if len(req.Callback.CABundle) > 0 {
		data[caKey] = req.Callback.CABundle
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: req.Name, Labels: labels(req.Name, req.Tags),
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Immutable: &yes, Type: corev1.SecretTypeOpaque, Data: data,
	}
}

// hasToken says whether a pod waits for a secret of ours.
func hasToken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == tokenVolume })
}
