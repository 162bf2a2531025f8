package deploy_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write deploy/kubernetes/prewarm.yaml instead of comparing with it")

const (
	chart = "helm/prewarm"
	least = "testdata/chart/least.yaml"
)

// valueSets are what charts are rendered with, here and against the API server.
func valueSets(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/chart/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// helm runs Helm, which scripts/helm.sh builds, and returns what it wrote.
func helm(t testing.TB, env []string, args ...string) (string, error) {
	t.Helper()
	program, err := exec.Command("../scripts/helm.sh", "-n").Output()
	if err != nil {
		missing(t, "Helm to render the chart with: scripts/helm.sh builds it, once for a machine, in four minutes")
	}
	cmd := exec.Command(strings.TrimSpace(string(program)), args...)
	home := t.TempDir()
	cmd.Env = append(append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home), env...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return complaint.String(), err
	}
	return out.String(), nil
}

func mustHelm(t testing.TB, args ...string) string {
	t.Helper()
	out, err := helm(t, nil, args...)
	require.NoError(t, err, "helm %s: %s", strings.Join(args, " "), out)
	return out
}

// object is one of what a chart renders, by its kind and name.
type object map[string]any

func (o object) at(t testing.TB, path string) (value any) {
	t.Helper()
	query, err := yaml.PathString(path)
	require.NoError(t, err)
	raw, err := yaml.Marshal(map[string]any(o))
	require.NoError(t, err)
	require.NoError(t, query.Read(bytes.NewReader(raw), &value), path)
	return value
}

func objectsOf(t testing.TB, rendered string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for part := range strings.SplitSeq(rendered, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		var whole object
		require.NoError(t, yaml.Unmarshal([]byte(part), &o), part)
		require.NoError(t, yaml.Unmarshal([]byte(part), &whole))
		if o.Kind == "" {
			continue // comments only
		}
		key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
		require.NotContains(t, all, key)
		all[key] = whole
	}
	return all
}

func render(t testing.TB, values string, args ...string) map[string]object {
	t.Helper()
	return objectsOf(t, "\n"+mustHelm(t, append([]string{"template", "prewarm", chart, "--namespace", "prewarm", "--values", values}, args...)...))
}

// Each value set renders, and what is on or off is there or not.
func TestChart(t *testing.T) {
	t.Parallel()
	always := []string{"Deployment prewarm/prewarm", "Service prewarm/prewarm"}
	for values, more := range map[string][]string{
		least: append([]string{
			"ServiceAccount prewarm/prewarm", "Role prewarm/prewarm", "RoleBinding prewarm/prewarm", "PodDisruptionBudget prewarm/prewarm",
			"PodDisruptionBudget prewarm/prewarm-claimed",
		}, always...),
		"testdata/chart/values.yaml": {"Deployment prewarm/pools", "Service prewarm/pools", "Secret prewarm/pools"},
		"testdata/chart/everything.yaml": append([]string{
			"ServiceAccount prewarm/prewarm", "Role blue/prewarm", "RoleBinding blue/prewarm", "Role green/prewarm", "RoleBinding green/prewarm",
			"PodDisruptionBudget prewarm/prewarm", "PodDisruptionBudget blue/prewarm-claimed", "PodDisruptionBudget green/prewarm-claimed",
			"NetworkPolicy prewarm/prewarm", "Ingress prewarm/prewarm", "HTTPRoute prewarm/prewarm",
			"ServiceMonitor prewarm/prewarm", "PrometheusRule prewarm/prewarm", "ConfigMap prewarm/prewarm-dashboard",
		}, always...),
	} {
		t.Run(filepath.Base(values), func(t *testing.T) {
			t.Parallel()
			var names []string
			for name := range render(t, values) {
				names = append(names, name)
			}
			assert.ElementsMatch(t, more, names)
			mustHelm(t, "lint", "--strict", chart, "--values", values)
		})
	}
}

// The arguments of the server: its addresses, its secrets as files, and only flags that it has.
func TestChart_flags(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile("../docs/cli.md")
	require.NoError(t, err)
	flags := regexp.MustCompile(`--[a-z-]+`)
	for values, want := range map[string][]string{
		least: {
			"--access-url=http://prewarm.prewarm.svc", "--advertise-url=http://$(POD_IP):7080", "--replica=$(POD_NAME)", "--drain=5s",
			"--postgres-url-file=/etc/prewarm/postgres-url", "--encryption-keys-file=/etc/prewarm/encryption-keys",
		},
		"testdata/chart/values.yaml": {"--access-url=http://pools.prewarm.svc:7080"},
		"testdata/chart/everything.yaml": {
			"--access-url=https://prewarm.example.com", "--advertise-url=http://[$(POD_IP)]:7080", "--trusted-proxies=10.0.0.0/8,fd00::/8",
			"--workspace-domain=ws.example.net", "--access-ca-file=/etc/prewarm/access-ca.pem", "--metrics-token-file=/etc/prewarm/metrics-token",
			"--notify-url-file=/etc/prewarm/notify-url", "--notify-secret-file=/etc/prewarm/notify-secret", "--max-connections=8000",
		},
	} {
		var args []any
		for name, o := range render(t, values) {
			if strings.HasPrefix(name, "Deployment ") {
				args = o.at(t, "$.spec.template.spec.containers[0].args").([]any)
			}
		}
		for _, arg := range args[1:] {
			assert.Contains(t, string(reference), "      "+flags.FindString(arg.(string))+" ", values)
		}
		for _, arg := range want {
			assert.Contains(t, args, arg, values)
		}
	}
}

// A pod has longer to end than the server takes: its drain, 5 s for requests and 10 s for jobs.
func TestChart_grace(t *testing.T) {
	t.Parallel()
	pod := render(t, "testdata/chart/everything.yaml")["Deployment prewarm/prewarm"]
	assert.EqualValues(t, 50, pod.at(t, "$.spec.template.spec.terminationGracePeriodSeconds"))
}

// The role is the one that the documentation has, which the tests of the provider work with.
func TestChart_role(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/providers/kubernetes.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: rbac.*?)```").FindSubmatch(page)
	require.NotNil(t, found)
	var documented object
	require.NoError(t, yaml.Unmarshal(found[1], &documented))
	for name, o := range render(t, "testdata/chart/everything.yaml") {
		if strings.HasPrefix(name, "Role ") {
			assert.Equal(t, documented["rules"], o["rules"], name)
		}
	}
}

// So is the budget of claimed pods.
func TestChart_claimedBudget(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/providers/kubernetes.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: policy.*?)```").FindSubmatch(page)
	require.NotNil(t, found)
	var documented object
	require.NoError(t, yaml.Unmarshal(found[1], &documented))
	all := render(t, "testdata/chart/everything.yaml")
	for _, namespace := range []string{"blue", "green"} {
		assert.Equal(t, documented["spec"], all["PodDisruptionBudget "+namespace+"/prewarm-claimed"]["spec"])
	}
}

// A packaged chart holds the rules and the dashboard of deploy/, and is of the release's version.
func TestChart_package(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustHelm(t, "package", chart, "--version", "1.2.3", "--app-version", "1.2.3", "--destination", dir)
	out := mustHelm(t, "template", "prewarm", filepath.Join(dir, "prewarm-1.2.3.tgz"), "--namespace", "prewarm",
		"--values", "testdata/chart/everything.yaml", "--set", "image.tag=")
	all := objectsOf(t, "\n"+out)

	rules, err := os.ReadFile("prometheus/rules.yml")
	require.NoError(t, err)
	var want any
	require.NoError(t, yaml.Unmarshal(rules, &want))
	assert.Equal(t, want, all["PrometheusRule prewarm/prewarm"]["spec"])
	dashboard, err := os.ReadFile("grafana/prewarm.json")
	require.NoError(t, err)
	assert.Equal(t, string(dashboard), all["ConfigMap prewarm/prewarm-dashboard"]["data"].(map[string]any)["prewarm.json"])
	assert.Equal(t, "registry.example.com/prewarm:1.2.3",
		all["Deployment prewarm/prewarm"].at(t, "$.spec.template.spec.containers[0].image"))
}

// What the schema or a template refuses, and with which words.
func TestChart_refuses(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"image.repository=":                               "no image is published yet",
		"image.tag=":                                      "name the tag of the image",
		"image.digest=latest":                             "/image/digest",
		"image.pullPolicy=Sometimes":                      "/image/pullPolicy",
		"database.existingSecret.name=":                   "name the Secret that holds the URL of PostgreSQL",
		"database.url=postgres://u@h/d":                   "either existingSecret.name or url",
		"database.url=mysql://u@h/d":                      "/database/url",
		"encryptionKeys.existingSecret.name=":             "name the Secret that holds the keys",
		"encryptionKeys.value=main:short":                 "/encryptionKeys/value",
		"replicas=0":                                      "/replicas",
		"replicas=three":                                  "/replicas",
		"replica=3":                                       "'replica' not allowed",
		"image.repo=x":                                    "'repo' not allowed",
		"accessURL=prewarm.example.com":                   "/accessURL",
		"accessURL=https://prewarm.example.com/path":      "/accessURL",
		"trustedProxies={ingress}":                        "/trustedProxies/0",
		"ipFamily=both":                                   "/ipFamily",
		"drainSeconds=5s":                                 "/drainSeconds",
		"drainSeconds=0":                                  "/drainSeconds",
		"log.level=verbose":                               "/log/level",
		"extraArgs={max-connections=5}":                   "/extraArgs/0",
		"workspaceNamespaces={Blue}":                      "/workspaceNamespaces/0",
		"workspaceNamespaces=blue":                        "/workspaceNamespaces",
		"service.type=Internal":                           "/service/type",
		"service.port=70000":                              "/service/port",
		"ingress.enabled=true":                            "/ingress/host",
		"ingress.enabled=maybe":                           "/ingress/enabled",
		"httpRoute.enabled=true":                          "/httpRoute",
		"podDisruptionBudget.maxUnavailable=0":            "/podDisruptionBudget/maxUnavailable",
		"claimedPodDisruptionBudget.minAvailable=1":       "'minAvailable' not allowed",
		"metrics.serviceMonitor.interval=often":           "/metrics/serviceMonitor/interval",
		"notify.existingSecret.name=The Webhook":          "/notify/existingSecret/name",
		"resources.requests.cpu=true":                     "/resources/requests/cpu",
		"fullnameOverride=Prewarm":                        "/fullnameOverride",
		"podAnnotations.number=5":                         "/podAnnotations/number",
		"networkPolicy.from=everybody":                    "/networkPolicy/from",
		"metrics.existingSecret.key=a key":                "/metrics/existingSecret/key",
		"encryptionKeys.value=main:MDEyMzQ1Njc4OWFiY2Rl=": "/encryptionKeys/value",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, nil, "template", "prewarm", chart, "--values", least, "--set", set)
			require.Error(t, err)
			assert.Contains(t, out, want)
		})
	}
}

// The manifests for those without Helm are what the chart renders.
func TestChart_manifests(t *testing.T) {
	t.Parallel()
	const file = "kubernetes/prewarm.yaml"
	const header = "# Made from the chart (../helm/prewarm) by `go test ./deploy -run Chart_manifests -update`. Put your image in, then\n" +
		"# do what docs/kubernetes.md says of installing without Helm.\n"
	made := header + mustHelm(t, "template", "prewarm", chart, "--namespace", "prewarm", "--values", "kubernetes/values.yaml")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(made), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(have), made)
}
