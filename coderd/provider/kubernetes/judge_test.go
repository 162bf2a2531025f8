package kubernetes

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// status is a pod as an API server answers, and what it means.
type status struct {
	Name string     `json:"name"`
	Pod  corev1.Pod `json:"pod"`
	Want struct {
		Ready, Failed, Transient, Previous bool
		Detail, Container                  string
	} `json:"want"`
}

func statuses(t *testing.T) []status {
	t.Helper()
	raw, err := os.ReadFile("testdata/statuses.json")
	require.NoError(t, err)
	var all []status
	require.NoError(t, json.Unmarshal(raw, &all))
	require.NotEmpty(t, all)
	return all
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, s := range statuses(t) {
		t.Run(s.Name, func(t *testing.T) {
			w := s.Want
			assert.Equal(t, verdict{w.Ready, w.Failed, w.Transient, w.Detail, w.Container, w.Previous}, judge(&s.Pod))
			i := found{Pod: &s.Pod}.instance()
			assert.Equal(t, w.Failed, i.Status == provider.StatusError, i.Status)
			assert.Equal(t, w.Failed, i.Fault != "", i.Fault)
		})
	}
}

// A pod that somebody deletes is never ready, whatever else its status says; nothing is both ready and failed; and what
// is not ready says why.
func TestJudge_always(t *testing.T) {
	t.Parallel()
	all := statuses(t)
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SampledFrom(all).Draw(t, "pod")
		pod := drawn.Pod.DeepCopy()
		other := rapid.SampledFrom(all).Draw(t, "other").Pod
		if rapid.Bool().Draw(t, "phase") {
			pod.Status.Phase = other.Status.Phase
		}
		if rapid.Bool().Draw(t, "conditions") {
			pod.Status.Conditions = other.Status.Conditions
		}
		if rapid.Bool().Draw(t, "containers") {
			pod.Status.ContainerStatuses = other.Status.ContainerStatuses
		}
		v := judge(pod)
		assert.False(t, v.ready && v.failed)
		assert.False(t, v.transient && !v.failed)
		assert.Equal(t, v.ready, v.detail == "", v.detail)
		assert.LessOrEqual(t, len(v.detail), 2000)
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			assert.False(t, v.ready)
			assert.True(t, v.failed)
		}
	})
}

// A container that has ended for the fourth time has failed, whether the kubelet says already that it backs off or not.
func TestJudge_crashLoop(t *testing.T) {
	t.Parallel()
	const ended = "container dev ended with exit status 3, "
	for _, c := range []struct {
		restarts int32
		backsOff bool
		want     verdict
	}{
		{2, false, verdict{detail: ended + "and is about to be started again"}},
		{2, true, verdict{detail: ended + "3 times"}},
		{3, false, verdict{failed: true, detail: ended + "4 times", container: "dev"}}, // its output is there
		{3, true, verdict{failed: true, detail: ended + "4 times", container: "dev", previous: true}},
	} {
		last := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
		is := corev1.ContainerStatus{Name: "dev", RestartCount: c.restarts, State: last, LastTerminationState: last}
		if c.backsOff {
			is.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}
		assert.Equal(t, c.want, judge(&corev1.Pod{Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{is},
		}}), "%d %v", c.restarts, c.backsOff)
	}
}

// What others say is bounded.
func TestJudge_bounded(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: strings.Repeat("€", 5000),
	}}}}
	assert.Less(t, len(judge(pod).detail), 1100)
}
