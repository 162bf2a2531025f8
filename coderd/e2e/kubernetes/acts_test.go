package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/chaos/userstest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes/k8stest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// The labels that make a pod a workspace, as docs/providers/kubernetes.md names them.
const (
	labelInstallation = "prewarm.dev/installation"
	labelWorkspace    = "prewarm.dev/workspace"
	labelIncarnation  = "prewarm.dev/incarnation"
	labelName         = "prewarm.dev/name"
	labelClaim        = "prewarm.dev/claim"
)

// deed is one act, and what it hit.
type deed struct{ act, hit string }

// acts are somebody at work behind the servers' backs.
type acts struct {
	*place

	installation string
	store        *database.Store
	client       *sdk.Client
	between      *between
	random       *rand.Rand
	tally        *userstest.Tally
	deeds        []deed
	gone         map[string]bool        // provider ids of workspaces whose pod is not theirs any more, by an act
	strays       map[string]string      // by UID: what looks like ours and is no workspace's, and what it is
	foreign      map[string]*corev1.Pod // by name: what must stay as it is
}

// menu is what may be done, and how often for each other.
var menu = []struct {
	name   string
	weight int
	do     func(*acts) string
}{
	{"kubectl delete pod", 4, func(a *acts) string { return a.hit(a.remove("--wait=false")) }},
	{"kubectl delete pod --force", 3, func(a *acts) string { return a.hit(a.remove("--force", "--grace-period=0")) }},
	{"an eviction", 4, func(a *acts) string { return a.hit(a.evicts) }},
	{"a drain of all pods", 1, (*acts).drain},
	{"a label of a workspace taken off", 2, func(a *acts) string { return a.hit(a.unlabel) }},
	{"the label of a claim taken off", 2, func(a *acts) string { return a.hit(a.unclaim) }},
	{"a foreign pod with our prefix", 2, func(a *acts) string { return a.foreigner("prebuild-"+a.word(), nil) }},
	{"another installation's", 2, (*acts).foreignInstallation},
	{"a copy with all labels, of another name", 2, func(a *acts) string { return a.hit(a.copies) }},
	{"our labels, of no row", 3, (*acts).stray},
	{"removed, and made again", 2, func(a *acts) string { return a.hit(a.remake) }},
	{"the volume claim of a stopped one", 3, (*acts).removeVolume},
	{"the API server refuses connections", 1, func(a *acts) string { return a.trouble(refusing, true) }},
	{"it answers 503", 1, func(a *acts) string {
		return a.trouble(answering(http.StatusServiceUnavailable, "ServiceUnavailable"), true)
	}},
	{"it answers 429", 1, func(a *acts) string { return a.trouble(answering(http.StatusTooManyRequests, "TooManyRequests"), true) }},
	{"it is frozen", 1, func(a *acts) string { return a.trouble(frozen, true) }},
	{"it is slow", 1, func(a *acts) string { return a.trouble(slow, false) }},
	{"its clock is an hour behind", 1, func(a *acts) string { return a.clock(-time.Hour) }},
	{"its clock is an hour ahead", 1, func(a *acts) string { return a.clock(time.Hour) }},
	{"watches answer 410 Gone", 1, func(a *acts) string { return a.trouble(watchesGone, false) }},
	{"all connections are cut", 2, func(a *acts) string { a.between.cutAll(); return "" }},
}

// I1, I2, I4, I6, S1 to S6: whatever somebody does at the cluster, nothing foreign is touched, nothing is left, no claimed workspace
// goes but by its user, and in the end every pool is full.
func TestActs(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if given := os.Getenv("PREWARM_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("PREWARM_SEED=%d", seed)
	p := newPlace(t)
	p.budget()
	url := dbtest.URL(t)
	a := &acts{
		place: p, between: p.between(), store: dbtest.OpenURL(t, url, database.Options{MaxConns: 2}), random: rand.New(rand.NewPCG(seed, 0)),
		gone: map[string]bool{}, strays: map[string]string{}, foreign: map[string]*corev1.Pod{},
	}
	servers := []*e2etest.Server{p.serverOf(url), p.serverOf(url)}
	a.client = servers[0].Client
	id, err := a.store.EnsureInstallation(t.Context())
	require.NoError(t, err)
	a.installation = id.String()
	pools := fmt.Sprintf(plain, 5) + strings.TrimPrefix(fmt.Sprintf(halfStopped, 4), "\ntemplates:\n")
	apply(t, a.client, p.document(a.between.kubeconfig, pools, "    inventory_every: 10s\n"))
	_, err = a.client.ConfirmProvider(t.Context(), "cluster") // that orphans are deleted there
	require.NoError(t, err)
	p.eventually("the pool fills", func() bool { return a.amiss() == "" })

	users, tally, stop := userstest.Start(t, userstest.Options{
		Clients: []*sdk.Client{servers[0].Client, servers[1].Client}, Random: a.random, Every: 2 * time.Second,
		Asks: func(random *rand.Rand) sdk.ClaimRequest {
			of := "plain"
			if random.IntN(4) == 0 {
				of = "volumes"
			}
			return sdk.ClaimRequest{Template: of, Preset: "default", Mode: "require"}
		},
	})
	a.tally = tally
	for range 10 * rounds(4) {
		time.Sleep(a.some(time.Second))
		a.act()
	}
	ended := time.Now()
	stop()
	for deadline := ended.Add(6 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		why := a.amiss()
		if why == "" {
			break
		}
		require.Less(t, time.Now(), deadline, why)
	}
	t.Logf("all was well %.1f s after the last act", time.Since(ended).Seconds())
	a.verify(users)
	a.report()
}

func (a *acts) some(most time.Duration) time.Duration {
	return time.Duration(a.random.Int64N(int64(most)))
}

func (a *acts) word() string { return fmt.Sprintf("%016x", a.random.Uint64()) }

// act does one thing of the menu.
func (a *acts) act() {
	total := 0
	for _, m := range menu {
		total += m.weight
	}
	pick := a.random.IntN(total)
	for _, m := range menu {
		if pick -= m.weight; pick < 0 {
			a.deeds = append(a.deeds, deed{m.name, m.do(a)})
			return
		}
	}
}

// all are the namespace's pods, by name.
func (a *acts) all() map[string]*corev1.Pod {
	a.t.Helper()
	var list corev1.PodList
	require.NoError(a.t, json.Unmarshal([]byte(a.kubectl("get", "pods", "-o", "json")), &list))
	all := map[string]*corev1.Pod{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

// idOf is what the server knows a pod by: one with a volume by that.
func idOf(pod *corev1.Pod) string {
	if hasVolume(pod) {
		return pod.Name + "/" + string(pod.OwnerReferences[0].UID) + "/home"
	}
	return pod.Name + "/" + string(pod.UID)
}

func hasVolume(pod *corev1.Pod) bool { return len(pod.OwnerReferences) > 0 }

// halfStopped is a pool of pods with a volume, half of which are stopped.
const halfStopped = `
templates:
  - name: volumes
    provider: cluster
    boot_timeout: 5m
    spec:
` + homeVolume + `      pod:
        spec:
          terminationGracePeriodSeconds: 5
          containers: [{name: dev, image: "` + k8stest.Guest + `", imagePullPolicy: Never, command: [/bin/guest, serve], volumeMounts: [{name: home, mountPath: /home}]}]
    presets: [{name: default, prebuilds: {instances: %d, standby: {running: 50%%}}}]
`

// row is a workspace, deleted or not.
type row struct{ id, name, state string }

// rows are by the provider's id.
func (a *acts) rows() map[string]row {
	a.t.Helper()
	found, err := a.store.Pool.Query(a.t.Context(), "SELECT provider_id, id::text, name, state::text FROM workspaces")
	require.NoError(a.t, err)
	defer found.Close()
	all := map[string]row{}
	for found.Next() {
		var id string
		var r row
		require.NoError(a.t, found.Scan(&id, &r.id, &r.name, &r.state))
		if id == "" {
			id = r.name // it has none yet
		}
		all[id] = r
	}
	require.NoError(a.t, found.Err())
	return all
}

// hit does something to one pod of a workspace, and returns what that was. The server may be faster.
func (a *acts) hit(do func(*corev1.Pod) (bool, error)) string {
	var found []*corev1.Pod
	var rows map[string]row
	a.eventually("there is a pod of a workspace to do something to", func() bool {
		rows, found = a.rows(), nil
		for _, pod := range a.all() {
			if _, known := rows[idOf(pod)]; known && pod.DeletionTimestamp == nil && !a.gone[idOf(pod)] {
				found = append(found, pod)
			}
		}
		return len(found) > 0
	})
	slices.SortFunc(found, func(x, y *corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	pod := found[a.random.IntN(len(found))]
	state := rows[idOf(pod)].state
	// What is claimed meanwhile keeps its fault all the same.
	switch away, err := do(pod); {
	case err != nil && strings.Contains(err.Error(), "disruption budget"):
		return state + ", refused by the budget"
	case err != nil:
		a.t.Logf("an act came too late: %v", err)
		return "too late"
	case away:
		a.gone[idOf(pod)] = true
	}
	return state
}

func (a *acts) remove(how ...string) func(*corev1.Pod) (bool, error) {
	return func(pod *corev1.Pod) (bool, error) {
		_, err := a.cluster.Kubectl("", append([]string{"delete", "pod", pod.Name, "--namespace", a.namespace}, how...)...)
		return true, err
	}
}

func (a *acts) evicts(pod *corev1.Pod) (bool, error) { return true, a.evict(pod.Name) }

// drain evicts all, as who empties a node does.
func (a *acts) drain() string {
	count := map[string]int{}
	rows := a.rows()
	for _, pod := range a.all() {
		if _, known := rows[idOf(pod)]; !known || a.gone[idOf(pod)] { // one without its label is nobody's any more
			continue
		}
		switch err := a.evict(pod.Name); {
		case err == nil:
			a.gone[idOf(pod)] = true
			count["evicted"]++
		case strings.Contains(err.Error(), "disruption budget"):
			count["refused"]++
		}
	}
	return fmt.Sprintf("%d evicted, %d refused by the budget", count["evicted"], count["refused"])
}

func (a *acts) label(pod, change string) error {
	_, err := a.cluster.Kubectl("", "label", "pod", pod, change, "--namespace", a.namespace, "--overwrite")
	return err
}

// unlabel makes a pod nobody's: it is not touched from then on.
func (a *acts) unlabel(pod *corev1.Pod) (bool, error) {
	if hasVolume(pod) {
		return false, errors.New("one with our volume stays ours")
	}
	if err := a.label(pod.Name, labelWorkspace+"-"); err != nil {
		return false, err
	}
	if is := a.all()[pod.Name]; is != nil && is.DeletionTimestamp == nil && is.UID == pod.UID { // else it was on the way out already
		a.foreign[pod.Name] = is
	}
	return true, nil
}

// unclaim has the pod of a claimed workspace look unclaimed. An inventory puts that right.
func (a *acts) unclaim(pod *corev1.Pod) (bool, error) {
	return false, a.label(pod.Name, labelClaim+"-")
}

// make makes a pod with labels.
func (a *acts) make(name string, labels map[string]string) *corev1.Pod {
	a.t.Helper()
	like := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}
	var template struct {
		Pod corev1.PodTemplateSpec `json:"pod"`
	}
	require.NoError(a.t, json.Unmarshal(spec(`, "command": ["/bin/guest", "serve"]`, ""), &template))
	like.Spec = template.Pod.Spec
	raw, err := json.Marshal(like)
	require.NoError(a.t, err)
	made := &corev1.Pod{}
	require.NoError(a.t, json.Unmarshal([]byte(a.cluster.Must(a.t, string(raw), "create", "--namespace", a.namespace, "-f", "-", "-o", "json")), made))
	return made
}

// foreigner makes a pod that is nobody's business.
func (a *acts) foreigner(name string, labels map[string]string) string {
	a.foreign[name] = a.make(name, labels)
	return ""
}

func (a *acts) tags(installation, name string) map[string]string {
	return map[string]string{labelInstallation: installation, labelWorkspace: uuid.NewString(), labelIncarnation: "1", labelName: name}
}

func (a *acts) foreignInstallation() string {
	name := "prebuild-" + a.word()
	return a.foreigner(name, a.tags(uuid.NewString(), name))
}

func (a *acts) copies(pod *corev1.Pod) (bool, error) {
	labels := maps.Clone(pod.Labels)
	delete(labels, labelClaim) // the budget is for those that have it
	a.foreigner("copy-"+a.word(), labels)
	return false, nil
}

// stray is tagged as ours, and no row is of it.
func (a *acts) stray() string {
	name := "prebuild-" + a.word()
	a.strays[string(a.make(name, a.tags(a.installation, name)).UID)] = "stray"
	return ""
}

// remake makes a pod with the name and all labels of one that it removes, as tools do that update images.
func (a *acts) remake(pod *corev1.Pod) (bool, error) {
	if _, err := a.remove("--force", "--grace-period=0")(pod); err != nil {
		return false, err
	}
	a.strays[string(a.make(pod.Name, pod.Labels).UID)] = "made again"
	return true, nil
}

// removeVolume takes away all that there is of a stopped workspace.
func (a *acts) removeVolume() string {
	var stopped []string
	rows := a.rows()
	for id, r := range rows {
		if r.state == "standby" && !a.gone[id] && a.all()[r.name] == nil {
			stopped = append(stopped, id)
		}
	}
	if len(stopped) == 0 {
		return "none is stopped"
	}
	slices.Sort(stopped)
	id := stopped[a.random.IntN(len(stopped))]
	a.gone[id] = true
	a.kubectl("delete", "persistentvolumeclaim", "prewarm."+rows[id].name+".home", "--wait=false")
	return a.rows()[id].state
}

// trouble lasts for some seconds, in which claims go on: those of what is ready need no API server.
func (a *acts) trouble(asked func(over <-chan struct{}) func(http.ResponseWriter, *http.Request) bool, away bool) string {
	if away {
		a.eventually("there is something to claim", func() bool {
			p, err := a.client.Preset(a.t.Context(), "plain", "default")
			require.NoError(a.t, err)
			return p.Counts.Eligible >= 3 // two may be claimed in this moment
		})
	}
	over := make(chan struct{})
	a.between.instead(asked(over))
	a.between.cutAll()
	a.tally.Away.Store(away)
	lasts := 2*time.Second + a.some(4*time.Second)
	time.Sleep(lasts)
	a.tally.Away.Store(false)
	a.between.instead(nil)
	close(over)
	return "for " + lasts.Round(time.Second).String()
}

// clock has the API server's answers say other times for some seconds.
func (a *acts) clock(off time.Duration) string {
	a.between.when(func(r *http.Response) { shift(r, off) })
	defer a.between.when(nil)
	return a.trouble(inJSON, false)
}

// inJSON asks for what can be read, instead of protobuf.
func inJSON(<-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Set("Accept", "application/json")
		return false
	}
}

func refusing(<-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
}

func answering(code int, reason string) func(<-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(<-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			if code == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "by the test", "reason": %q, "code": %d}`, reason, code)
			return true
		}
	}
}

func frozen(over <-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-over:
			return false
		case <-r.Context().Done():
			return true
		}
	}
}

func slow(over <-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-over:
		case <-r.Context().Done():
		case <-time.After(time.Second):
		}
		return false
	}
}

func watchesGone(over <-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	gone := answering(http.StatusGone, "Expired")(over)
	return func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("watch") != "" && gone(w, r)
	}
}
