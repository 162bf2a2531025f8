package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// plain is a spec with more fields in its container, and in the pod.
func plain(container, pod string) string {
	return `{"pod": {"spec": {"containers": [{"name": "dev", "image": "debian:12"` + container + `}]` + pod + `}}}`
}

// warm is a spec whose pod has less until a claim.
func warm(resources string) string {
	return `{"warm_resources": ` + resources + `, "pod": {"spec": {"containers": [{"name": "dev", "image": "debian:12",
		"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "${parameters.size}"}}}]}}}`
}

// Each mistake is reported at its own place.
func TestSpec_problems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec, path, says string
	}{
		{`["x"]`, "", "must be a mapping"},
		{`{}`, "pod.spec.containers", "is missing"},
		{`{"pod": null}`, "pod.spec.containers", "is missing"},
		{`{"pods": {}}`, "pods", "known are evict_unclaimed, pod, volume_claim_templates, warm_resources"},
		{`{"evict_unclaimed": "yes", "pod": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}`, "evict_unclaimed", "must be true or false"},
		{
			`{"pod": {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`,
			"pod.metadata.annotations.cluster-autoscaler.kubernetes.io/safe-to-evict", "evict_unclaimed: true",
		},
		{`{"pod": {"spec": {"containers": []}}}`, "pod.spec.containers", "is missing"},
		{`{"pod": {"spec": {"containers": [{"image": "x"}]}}}`, "pod.spec.containers[0].name", "is missing"},
		{`{"pod": {"spec": {"containers": [{"name": "x"}]}}}`, "pod.spec.containers[0].image", "is missing"},
		{plain(`, "imagePullpolicy": "Never"`, ""), "pod.spec.containers[0].imagePullpolicy", "write imagePullPolicy"},
		{plain(`, "volumeMount": []`, ""), "pod.spec.containers[0].volumeMount", "write volumeMounts"},
		{plain(``, `, "node": "a"`), "pod.spec.node", "is not a field of a PodSpec"},
		{plain(`, "env": [{"name": "A", "value": "b"}, {"name": "PORT", "value": 8080}]`, ""), "pod.spec.containers[0].env[1].value", "put 8080 in quotes"},
		{plain(`, "ports": [{"containerPort": "x"}]`, ""), "pod.spec.containers[0].ports[0].containerPort", "whole number"},
		{plain(`, "tty": "yes"`, ""), "pod.spec.containers[0].tty", "true or false"},
		{plain(`, "command": "sleep"`, ""), "pod.spec.containers[0].command", "must be a list"},
		{plain(`, "resources": {"limits": {"memory": "much"}}`, ""), "pod.spec.containers[0].resources.limits.memory", "Quantity"},
		{plain(``, `, "volumes": [{"name": "a", "emptyDir": 3}]`), "pod.spec.volumes[0].emptyDir", "must be a mapping"},
		{plain(`, "env": [{"name": "PREWARM_X"}]`, ""), "pod.spec.containers[0].env[0].name", "reserved"},
		{plain(`, "volumeMounts": [{"name": "a", "mountPath": "/.prewarm/x"}]`, ""), "pod.spec.containers[0].volumeMounts[0].mountPath", "the agent's"},
		{plain(`, "env": [{"name": "A", "value": "${parameters.sise}"}]`, ""), "pod.spec.containers[0].env[0].value", "has no parameter"},
		{plain(``, `, "hostNetwork": true`), "pod.spec.hostNetwork", "privileged: true"},
		{plain(``, `, "securityContext": {"windowsOptions": {"hostProcess": true}}`), "pod.spec.securityContext.windowsOptions.hostProcess", "privileged: true"},
		{plain(`, "securityContext": {"windowsOptions": {"hostProcess": true}}`, ""), "pod.spec.containers[0].securityContext.windowsOptions.hostProcess", "privileged: true"},
		{plain(`, "securityContext": {"procMount": "Unmasked"}`, ""), "pod.spec.containers[0].securityContext.procMount", "privileged: true"},
		{plain(``, `, "volumes": [{"name": "a", "hostPath": {"path": "/"}}]`), "pod.spec.volumes[0].hostPath", "privileged: true"},
		{plain(`, "securityContext": {"privileged": true}`, ""), "pod.spec.containers[0].securityContext.privileged", "privileged: true"},
		{plain(`, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}`, ""), "pod.spec.containers[0].securityContext.capabilities.add[0]", "privileged: true"},
		{plain(`, "ports": [{"containerPort": 1, "hostPort": 1}]`, ""), "pod.spec.containers[0].ports[0].hostPort", "privileged: true"},
		{plain(``, `, "serviceAccountName": "admin"`), "pod.spec.serviceAccountName", "service_accounts"},
		{plain(``, `, "volumes": [{"name": "a", "secret": {"secretName": "prebuild-b"}}]`), "pod.spec.volumes[0].secret.secretName", "secrets"},
		{plain(``, `, "volumes": [{"name": "a", "projected": {"sources": [{"secret": {"name": "b"}}]}}]`), "pod.spec.volumes[0].projected.sources[0].secret.name", "secrets"},
		{plain(``, `, "volumes": [{"name": "a", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "b"}}}]`), "pod.spec.volumes[0].csi.nodePublishSecretRef.name", "secrets"},
		{plain(`, "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "b", "key": "c"}}}]`, ""), "pod.spec.containers[0].env[0].valueFrom.secretKeyRef.name", "secrets"},
		{plain(`, "envFrom": [{"secretRef": {"name": "b"}}]`, ""), "pod.spec.containers[0].envFrom[0].secretRef.name", "secrets"},
		{plain(``, `, "imagePullSecrets": [{"name": "b"}]`), "pod.spec.imagePullSecrets[0].name", "secrets"},
		{`{"pod": {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`, "pod.metadata", "labels and annotations only"},
		{`{"pod": {"metadata": {"finalizers": ["x"]}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`, "pod.metadata", "labels and annotations only"},
		{`{"pod": {"metadata": {"labels": {"prewarm.dev/workspace": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`, "pod.metadata.labels.prewarm.dev/workspace", "reserved"},
		{
			`{"pod": {"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}`,
			"pod.metadata.annotations.kubectl.kubernetes.io/default-container", "no container",
		},
		{warm(`{"dev": {"request": {"cpu": "1"}}}`), "warm_resources.dev.request", "write requests"},
		{warm(`{"dev": {"requests": {"cpu": "much"}}}`), "warm_resources.dev.requests.cpu", "Quantity"},
		{warm(`{"other": {"requests": {"cpu": "1"}}}`), "warm_resources.other", "no container of that name"},
		{warm(`{"dev": {"requests": {"ephemeral-storage": "1"}}}`), "warm_resources.dev.requests.ephemeral-storage", "only cpu and memory"},
		{warm(`{"dev": {"limits": {"cpu": "1"}}}`), "warm_resources.dev.limits.cpu", "has no limits.cpu"},
		{warm(`{"dev": {"requests": {"memory": "2Gi"}}}`), "warm_resources.dev.requests.memory", "more than the container's own, 1Gi"},
		{warm(`{"dev": {"claims": [{"name": "gpu"}]}}`), "warm_resources.dev.claims", "cannot change"},
	} {
		_, problems := parseSpec(Config{}, json.RawMessage(c.spec), map[string]string{"size": "2Gi"})
		at := slices.IndexFunc(problems, func(p provider.Problem) bool { return p.Path == c.path })
		if assert.GreaterOrEqual(t, at, 0, "%s: no problem at %s: %v", c.spec, c.path, problems) {
			assert.Contains(t, problems[at].Message, c.says)
		}
		assert.Len(t, problems, 1, c.spec)
	}
}

// What the configuration permits is no problem.
func TestSpec_permitted(t *testing.T) {
	t.Parallel()
	config, err := ParseConfig(json.RawMessage(`{"namespace": "work", "privileged": true, "secrets": ["pull"], "service_accounts": ["build"]}`))
	require.NoError(t, err)
	_, problems := parseSpec(config, json.RawMessage(plain(`, "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_ADMIN"]}}`,
		`, "hostNetwork": true, "serviceAccountName": "build", "imagePullSecrets": [{"name": "pull"}]`)), nil)
	require.Empty(t, problems)
	for _, wrong := range []string{
		`{"namespaces": "x"}`, `{"namespace": "A"}`, `{"context": "x"}`, `{"kubeconfig": "x"}`, `{"qps": -1}`,
		`{"agent_image": "a b"}`, `{"callback_host": "http://x"}`,
	} {
		_, err := ParseConfig(json.RawMessage(wrong))
		require.Error(t, err, wrong)
	}
	_, err = New(t.Context(), Options{})
	require.ErrorContains(t, err, "set kubeconfig")
}

func request(spec string, parameters map[string]string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: "prebuild-a", Organization: "default", Template: "dev", Preset: "small", Spec: json.RawMessage(spec), Parameters: parameters,
		Tags: provider.Tags{
			Installation: uuid.MustParse("00000000-0000-0000-0000-00000000000a"),
			WorkspaceID:  uuid.MustParse("00000000-0000-0000-0000-00000000000b"), Incarnation: 3,
		},
	}
}

func podOf(p *Provider, req provider.CreateRequest) (*corev1.Pod, error) {
	made, err := p.objectsOf(req)
	return made.pod, err
}

// The pod is the template's, with what makes it a workspace; parameters reach it as variables and in strings.
func TestPod(t *testing.T) {
	t.Parallel()
	p := &Provider{}
	pod, err := podOf(p, request(`{"pod": {
		"metadata": {"labels": {"team": "web"}, "annotations": {"size": "is ${parameters.size}"}},
		"spec": {"initContainers": [{"name": "setup", "image": "debian:12"}],
			"containers": [{"name": "dev", "image": "debian:${parameters.release}", "resources": {"limits": {"memory": "${parameters.size}"}},
				"env": [{"name": "PARAM_SIZE", "value": "mine"}, {"name": "COPY", "value": "$(PARAM_RELEASE)"}]}]}}}`,
		map[string]string{"size": "64Mi", "release": "12", "odd": "$(HOME)"}))
	require.NoError(t, err)
	assert.Equal(t, "prebuild-a", pod.Name)
	assert.Equal(t, map[string]string{
		"team": "web", labelName: "prebuild-a", labelIncarnation: "3",
		labelInstallation: "00000000-0000-0000-0000-00000000000a", labelWorkspace: "00000000-0000-0000-0000-00000000000b",
	}, pod.Labels)
	assert.Equal(t, map[string]string{
		"size": "is 64Mi", noteContainer: "dev", noteOrganization: "default", noteTemplate: "dev", notePreset: "small",
		noteEvict: "false", noteStay: "true",
	}, pod.Annotations)
	may, err := podOf(p, request(`{"evict_unclaimed": true, "pod": {"spec": {"containers": [{"name": "dev", "image": "a"}]}}}`, nil))
	require.NoError(t, err)
	assert.Equal(t, "true false", may.Annotations[noteEvict]+" "+may.Annotations[noteStay])
	assert.False(t, *pod.Spec.AutomountServiceAccountToken)
	dev := pod.Spec.Containers[0]
	assert.Equal(t, "debian:12", dev.Image)
	assert.Equal(t, "64Mi", dev.Resources.Limits.Memory().String())
	var names []string
	for _, v := range dev.Env {
		names = append(names, v.Name+"="+v.Value)
	}
	assert.Equal(t, []string{
		"PARAM_ODD=$$(HOME)", "PARAM_RELEASE=12", "PARAM_SIZE=64Mi", "PREWARM_INCARNATION=3", "PREWARM_PRESET=small",
		"PREWARM_TEMPLATE=dev", "PREWARM_WORKSPACE=prebuild-a", "PREWARM_WORKSPACE_ID=00000000-0000-0000-0000-00000000000b",
		"PARAM_SIZE=mine", "COPY=$(PARAM_RELEASE)",
	}, names)
	assert.Len(t, pod.Spec.InitContainers[0].Env, 8)
	tags, ours := tagsOf(pod.Name, pod.Labels)
	assert.True(t, ours)
	assert.Equal(t, request("", nil).Tags, tags)
	_, ours = tagsOf("a-copy", pod.Labels)
	assert.False(t, ours, "a copy with all labels is not the workspace")
	assert.False(t, hasToken(pod))

	asked, err := podOf(p, request(plain("", `, "automountServiceAccountToken": true`), nil))
	require.NoError(t, err)
	assert.True(t, *asked.Spec.AutomountServiceAccountToken)
}

// A pod has what is warm until it is claimed, and says what it is to have from then on.
func TestPod_warm(t *testing.T) {
	t.Parallel()
	pod, err := podOf(&Provider{}, request(warm(`{"dev": {"requests": {"cpu": "50m"}, "limits": {"memory": "${parameters.warm}"}}}`),
		map[string]string{"size": "2Gi", "warm": "64Mi"}))
	require.NoError(t, err)
	amounts := func(pod *corev1.Pod) string {
		raw, err := json.Marshal(pod.Spec.Containers[0].Resources)
		require.NoError(t, err)
		return string(raw)
	}
	const full = `{"limits":{"memory":"2Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`
	require.JSONEq(t, `{"limits":{"memory":"64Mi"},"requests":{"cpu":"50m","memory":"1Gi"}}`, amounts(pod))
	require.JSONEq(t, full, amounts(grown(pod)))
	require.JSONEq(t, `{"dev": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "1"}}}`, pod.Annotations[noteResources])
	for _, c := range []struct {
		note    string
		missing bool
	}{
		{pod.Annotations[noteResources], true},
		{`{"dev": {"requests": {"cpu": "50m"}}}`, false}, // it has that
		{`{"gone": {"requests": {"cpu": "1"}}}`, false},  // somebody else wrote it
		{`what is this?`, false},
		{"", false},
	} {
		pod.Annotations[noteResources] = c.note
		require.Equal(t, c.missing, len(found{Pod: pod}.missing()) > 0, c.note)
		pod.Labels[labelClaim] = "a-claim"
		require.Equal(t, !c.missing, found{Pod: pod}.instance().Marked, "one that has less than it is to have is not done with: %s", c.note)
	}
}

// The agent's token is in a secret that the pod owns, and nowhere in the pod; the command runs under the agent.
func TestAgentPod(t *testing.T) {
	t.Parallel()
	p := &Provider{config: Config{AgentImage: "registry.test/prewarm:1", CallbackHost: "prewarm.test:7080"}}
	req := request(plain(`, "command": ["sleep"], "args": ["60"]`, `, "initContainers": [{"name": "setup", "image": "x"}]`), nil)
	req.Callback = provider.Callback{CallbackURL: "http://127.0.0.1:3000/api/v1/instances/x", Token: "secret-token", CABundle: []byte("PEM")}
	pod, err := podOf(p, req)
	require.NoError(t, err)
	raw, err := json.Marshal(pod)
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "secret-token")
	dev := pod.Spec.Containers[0]
	assert.Equal(t, []string{"/.prewarm/program/prewarm", "agent", "--", "sleep"}, dev.Command)
	assert.Equal(t, []string{"60"}, dev.Args)
	assert.Contains(t, dev.Env, corev1.EnvVar{Name: "PREWARM_AGENT_URL", Value: "http://prewarm.test:7080"})
	assert.Contains(t, dev.Env, corev1.EnvVar{Name: "PREWARM_AGENT_CA_FILE", Value: "/.prewarm/token/authorities.pem"})
	require.Len(t, pod.Spec.InitContainers, 2)
	installer := pod.Spec.InitContainers[0]
	assert.Equal(t, []string{"/prewarm", "kubernetes-install", "/.prewarm/program/prewarm"}, installer.Command)
	assert.Len(t, installer.VolumeMounts, 1, "the token is the workspace's alone")
	assert.True(t, hasToken(pod))

	pod.UID = "the-uid"
	secret := secretOf(req, pod)
	assert.Equal(t, map[string][]byte{"token": []byte("secret-token\n"), "authorities.pem": []byte("PEM")}, secret.Data)
	assert.True(t, metav1.IsControlledBy(secret, pod))
	assert.True(t, p.ofPod(secret))

	for _, c := range []struct {
		config Config
		spec   string
		says   string
	}{
		{Config{CallbackHost: "x"}, plain("", ""), "agent_image"},
		{Config{AgentImage: "x"}, plain("", ""), "callback_host"},
		{p.config, plain(`, "args": ["60"]`, ""), "must say its command"},
		{p.config, plain(`, "image": 1`, ""), "check spec"},
	} {
		req.Spec = json.RawMessage(c.spec)
		_, err := podOf(&Provider{config: c.config}, req)
		assert.ErrorContains(t, err, c.says)
		assert.True(t, provider.IsPermanent(err))
	}
}

// claims is a spec with templates of volume claims, and a container that mounts home.
func claims(templates string) string {
	return fmt.Sprintf(`{"volume_claim_templates": %s, %s`, templates, plain(`, "volumeMounts": [{"name": "home", "mountPath": "/home"}]`, "")[1:])
}

const home = `{"metadata": {"name": "home"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "${parameters.size}"}}}}`

// A workspace's volume claims have names that no spec may name, and the first tells what its pod is while that is not there.
func TestVolumes(t *testing.T) {
	t.Parallel()
	size := map[string]string{"size": "1Gi"}
	made, err := (&Provider{}).objectsOf(request(claims("["+home+"]"), size))
	require.NoError(t, err)
	require.Len(t, made.claims, 1)
	anchor := made.claims[0]
	require.Equal(t, "prewarm.prebuild-a.home", anchor.Name)
	require.Equal(t, "1Gi", anchor.Spec.Resources.Requests.Storage().String())
	require.Equal(t, anchor.Name, made.pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	anchor.UID = "the-uid"
	f, ours := leftOf([]corev1.PersistentVolumeClaim{*anchor})
	require.True(t, ours)
	require.Equal(t, "prebuild-a/the-uid/home", idOf(f.Pod))
	require.Equal(t, made.pod.Spec, f.Spec)
	require.Equal(t, provider.StatusError, f.instance().Status, "somebody deleted its pod")
	require.True(t, f.instance().Lost)
	name, uid, template := parts(provider.Ref{ProviderID: idOf(f.Pod)})
	require.Equal(t, []string{"prebuild-a", "the-uid", "home"}, []string{name, string(uid), template})
	anchor.Annotations[noteStopped] = "true"
	anchor.Labels[labelClaim], anchor.Annotations[labelOwner] = "a-claim", "alice"
	f, _ = leftOf([]corev1.PersistentVolumeClaim{*anchor})
	require.Equal(t, provider.StatusStopped, f.instance().Status)
	require.True(t, f.instance().Marked)
	require.Equal(t, "alice", f.Labels[labelOwner])
	cache := anchor.DeepCopy()
	cache.Annotations, cache.Name, cache.Labels[labelVolume] = nil, "prewarm.prebuild-a.cache", "cache"
	two := anchor.DeepCopy()
	manifest := made.pod.DeepCopy()
	manifest.Spec.Volumes = append(manifest.Spec.Volumes, corev1.Volume{Name: "cache", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: cache.Name},
	}})
	raw, err := json.Marshal(manifest)
	require.NoError(t, err)
	two.Annotations[notePod] = string(raw)
	f, _ = leftOf([]corev1.PersistentVolumeClaim{*cache, *two})
	require.Equal(t, provider.StatusStopped, f.instance().Status)
	require.Equal(t, []string{cache.Name, anchor.Name}, claimsIn(f.Pod), "the anchor is the last to go")
	cache.Status.Phase = corev1.ClaimLost
	for _, claims := range [][]corev1.PersistentVolumeClaim{{*two}, {*cache, *two}} {
		f, _ = leftOf(claims)
		require.Equal(t, provider.StatusError, f.instance().Status, "one of its volumes is gone")
		require.Contains(t, f.instance().Fault, cache.Name)
	}
	for _, manifest := range []string{`{"metadata": {"name": "prebuild-a"}}`, `{`, strings.Replace(string(raw), `"3"`, `"4"`, 1)} {
		two.Annotations[notePod] = manifest
		_, ours = leftOf([]corev1.PersistentVolumeClaim{*two})
		require.False(t, ours, "somebody else wrote %s", manifest)
	}
	copied := anchor.DeepCopy()
	copied.Name = "a-copy"
	_, ours = leftOf([]corev1.PersistentVolumeClaim{*copied})
	require.False(t, ours, "a copy with all labels is not the workspace")

	for spec, at := range map[string]string{
		claims(`[{"metadata": {"name": "home"}}]`):                                                                                                                                    "volume_claim_templates[0].spec.accessModes",
		claims(`[{"metadata": {"name": "Home"}, "spec": {}}]`):                                                                                                                        "volume_claim_templates[0].metadata.name",
		claims(`[{"metadata": {"name": "home", "namespace": "x"}, "spec": {}}]`):                                                                                                      "volume_claim_templates[0].metadata",
		claims(`[{"metadata": {"name": "home", "labels": {"prewarm.dev/x": "y"}}}]`):                                                                                                  "volume_claim_templates[0].metadata.labels.prewarm.dev/x",
		claims(`[{"metadata": {"name": "home"}, "spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "prewarm.other.home"}}}]`):                                           "volume_claim_templates[0].spec.dataSource.name",
		claims(`[{"metadata": {"name": "home"}, "spec": {"dataSource": {"kind": "VolumeSnapshot", "name": "x"}}}]`):                                                                   "volume_claim_templates[0].spec.dataSource.kind",
		plain("", `, "volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "prewarm.other.home"}}}}}]`): "pod.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSourceRef.name",
		claims(`[{"metadata": {"name": "home"}, "spec": {"volumeName": "x"}}]`):                                                                                                       "volume_claim_templates[0].spec.volumeName",
		claims(`[{"metadata": {"name": "home"}, "sepc": {}}]`):                                                                                                                        "volume_claim_templates[0].sepc",
		claims("[" + home + ", " + home + "]"):                                                                                                                                        "volume_claim_templates[1].metadata.name",
		claims("[" + strings.Replace(home, "home", "other", 1) + "]"):                                                                                                                 "volume_claim_templates[0].metadata.name",
		plain("", `, "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "prewarm.other.home"}}]`):                                                                       "pod.spec.volumes[0].persistentVolumeClaim.claimName",
	} {
		_, problems := parseSpec(Config{}, json.RawMessage(spec), size)
		paths := lists.Of(problems, func(p provider.Problem) string { return p.Path })
		require.Contains(t, paths, at, spec)
	}
	p := &Provider{}
	require.NoError(t, p.CheckStop(json.RawMessage(claims("["+home+"]")), size))
	require.ErrorContains(t, p.CheckStop(json.RawMessage(plain("", "")), nil), "volume_claim_templates")
}

// FuzzSpec: whatever a template says, it is either refused with places in it, or means the same each time, and asks for
// nothing that the configuration does not permit.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(plain(`, "env": [{"name": "A", "value": "${parameters.size}"}]`, `, "volumes": [{"name": "a", "secret": {"secretName": "b"}}]`)), "size", "x y")
	f.Add([]byte(`{"pod":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":1}}}]}}}`), "size", "x")
	f.Add([]byte(`{"pod":{"spec":{"containers":[{"name":"a","image":"${parameters.size"}]}}}`), "size", `"`)
	f.Add([]byte(`null`), "size", "x y")
	f.Add([]byte(warm(`{"dev": {"requests": {"cpu": "500m"}}}`)), "size", "2Gi")
	f.Fuzz(func(t *testing.T, raw []byte, name, value string) {
		if !json.Valid(raw) { // what is stored is JSON
			return
		}
		s, problems := parseSpec(Config{}, raw, map[string]string{name: value})
		again, _ := parseSpec(Config{}, raw, map[string]string{name: value})
		assert.Equal(t, s, again)
		for _, p := range problems {
			assert.NotEmpty(t, p.Message)
		}
		if len(problems) == 0 {
			assert.NotEmpty(t, s.pod.Spec.Containers)
			assert.Empty(t, secretsOf("", s.pod.Spec))
			assert.False(t, s.pod.Spec.HostNetwork)
			pod := &corev1.Pod{Spec: *s.pod.Spec.DeepCopy()}
			s.warm.swap(&pod.Spec).swap(&pod.Spec)
			assert.True(t, equality.Semantic.DeepEqual(s.pod.Spec, pod.Spec), "a claim makes of it what the pod says")
		}
	})
}
