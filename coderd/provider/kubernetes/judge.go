package kubernetes

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// verdict is what a pod's status says of it.
type verdict struct {
	ready     bool
	failed    bool   // it will not become ready any more
	transient bool   // with failed: the cause is the cluster's, and another pod may become ready
	detail    string // what it waits for, or why it failed
	container string // with failed: whose last output tells more; empty: none
	previous  bool   // that output is of the run before
}

// crashes is how often a container may end while it starts: what it needs may come a little later than it.
const crashes = 3

// judge decides what a status means. It is pure: what it knows is in the pod.
func judge(pod *corev1.Pod) verdict {
	s := pod.Status
	switch {
	case pod.DeletionTimestamp != nil:
		return lost(cmp.Or(disruption(pod), "somebody deletes the pod"))
	case s.Reason == "NodeLost":
		return lost("its node is lost: " + s.Message)
	case s.Phase == corev1.PodFailed:
		return failedPod(pod)
	case s.Phase == corev1.PodSucceeded:
		return verdict{
			failed: true, detail: "its command ended with exit status 0", container: workspaceContainer(pod.Annotations, pod.Spec.Containers),
		}
	case s.Phase == corev1.PodUnknown:
		return verdict{detail: "its node does not answer"}
	case condition(pod, corev1.PodReady).Status == corev1.ConditionTrue:
		return verdict{ready: true}
	}
	if c := condition(pod, corev1.PodScheduled); c.Status == corev1.ConditionFalse {
		if c.Reason == corev1.PodReasonSchedulingGated {
			return verdict{detail: "waiting for its scheduling gates"}
		}
		return verdict{detail: "no node takes it: " + brief(c.Message)}
	} else if c.Status == "" {
		return verdict{detail: "waiting for the scheduler"}
	}
	for _, all := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range all {
			if v, waits := judgeContainer(c); waits {
				return v
			}
		}
	}
	return unready(pod)
}

func lost(detail string) verdict {
	return verdict{failed: true, transient: true, detail: brief(detail)}
}

// own are reasons of a failed pod that lie with its spec. All others are of its node or of the cluster: Evicted, Preempting,
// NodeShutdown, Terminated, UnexpectedAdmissionError, OutOfcpu and so on.
var own = []string{"", "DeadlineExceeded", "PodFailed"}

func failedPod(pod *corev1.Pod) verdict {
	s := pod.Status
	if why := disruption(pod); why != "" {
		return lost(why)
	}
	if !slices.Contains(own, s.Reason) {
		return lost(sentence(s.Reason, s.Message))
	}
	if s.Reason == "DeadlineExceeded" {
		return verdict{failed: true, detail: brief(sentence(s.Reason, s.Message))}
	}
	for _, all := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range all {
			if ended := c.State.Terminated; ended != nil && ended.ExitCode != 0 {
				return verdict{failed: true, detail: "container " + c.Name + " " + ending(*ended), container: c.Name}
			}
		}
	}
	return verdict{failed: true, detail: brief(cmp.Or(s.Message, "the pod has failed"))}
}

// disruption is why the cluster ends the pod, where it says so.
func disruption(pod *corev1.Pod) string {
	c := condition(pod, corev1.DisruptionTarget)
	if c.Status != corev1.ConditionTrue {
		return ""
	}
	what := map[string]string{
		corev1.PodReasonPreemptionByScheduler: "preempted by a pod of higher priority",
		corev1.PodReasonTerminationByKubelet:  "ended by its node",
		"EvictionByEvictionAPI":               "evicted",
		"DeletionByTaintManager":              "deleted since its node has a taint, as nodes that do not answer have",
		"DeletionByPodGC":                     "deleted since its node is gone",
	}[c.Reason]
	return sentence(cmp.Or(what, c.Reason), c.Message)
}

// judgeContainer says what holds a container up. One that runs, or is done, holds nothing up.
func judgeContainer(c corev1.ContainerStatus) (verdict, bool) {
	if ended := c.State.Terminated; ended != nil && ended.ExitCode != 0 {
		if c.RestartCount >= crashes { // kubelets say only later that it backs off
			return crashed(c, ended, false), true
		}
		return verdict{detail: "container " + c.Name + " " + ending(*ended) + ", and is about to be started again"}, true
	}
	waiting := c.State.Waiting
	if waiting == nil {
		return verdict{}, false
	}
	said := "container " + c.Name + ": " + sentence(waiting.Reason, waiting.Message)
	switch waiting.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return verdict{}, false
	case "InvalidImageName", "ErrImageNeverPull":
		return verdict{failed: true, detail: brief(said)}, true
	case "ImagePullBackOff":
		return verdict{failed: noImage.MatchString(waiting.Message), detail: brief(said)}, true
	case "CreateContainerConfigError", "CreateContainerError":
		return verdict{failed: noUser.MatchString(waiting.Message), detail: brief(said)}, true
	case "CrashLoopBackOff":
		return crashed(c, c.LastTerminationState.Terminated, true), true
	}
	return verdict{detail: brief(said)}, true
}

var (
	// noImage is what registries and runtimes say of an image that no later try will find.
	noImage = regexp.MustCompile(`(?i)not found|does not exist|manifest unknown|name unknown|denied|unauthorized|forbidden`)
	// noUser is what a kubelet says of an image that may not run as the user it names.
	noUser = regexp.MustCompile(`runAsNonRoot|non-root`)
)

// crashed is about a container that ends again and again, and how it ended last; previous says that this was the run before.
func crashed(c corev1.ContainerStatus, ended *corev1.ContainerStateTerminated, previous bool) verdict {
	v := verdict{detail: fmt.Sprintf("container %s ended %d times", c.Name, c.RestartCount+1)}
	if ended == nil {
		return v
	}
	v.detail = fmt.Sprintf("container %s %s, %d times", c.Name, ending(*ended), c.RestartCount+1)
	cannotRun := ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun"
	if v.failed = c.RestartCount >= crashes || cannotRun; v.failed && !cannotRun {
		v.container, v.previous = c.Name, previous
	}
	return v
}

func ending(t corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason == "OOMKilled":
		return "was killed, since it used more memory than its limit"
	case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
		return "cannot be started: " + brief(t.Message)
	case t.Signal != 0:
		return fmt.Sprintf("was ended by signal %d", t.Signal)
	}
	text := fmt.Sprintf("ended with exit status %d", t.ExitCode)
	if t.Message != "" { // what it wrote to its termination log
		text += ": " + brief(t.Message)
	}
	return text
}

// unready is about a pod whose containers are held up by nothing but themselves.
func unready(pod *corev1.Pod) verdict {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Running != nil && (c.Started == nil || !*c.Started) {
			return verdict{detail: "waiting for init container " + c.Name}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Running == nil:
			return verdict{detail: "container " + c.Name + " is being created"}
		case c.Started != nil && !*c.Started:
			return verdict{detail: "waiting for the startup probe of container " + c.Name}
		case !c.Ready:
			return verdict{detail: "waiting for the readiness probe of container " + c.Name}
		}
	}
	if c := condition(pod, corev1.PodReady); c.Message != "" {
		return verdict{detail: brief(sentence(c.Reason, c.Message))}
	}
	return verdict{detail: "waiting for its node to take it"}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func sentence(reason, message string) string {
	if reason == "" || message == "" || strings.HasPrefix(message, reason) {
		return cmp.Or(message, reason)
	}
	return reason + ": " + message
}

// brief bounds what others say.
func brief(text string) string {
	const most = 1000
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
