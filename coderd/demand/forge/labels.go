package forge

import (
	"slices"
	"strings"
)

// Labels is a set of labels as it is compared and stored: lower case, sorted, each once, none empty (P4).
func Labels(labels []string) []string {
	set := make([]string, 0, len(labels))
	for _, l := range labels {
		if l = strings.ToLower(strings.TrimSpace(l)); l != "" {
			set = append(set, l)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// Serves says whether a runner with the first labels takes a job that asks for the second: a superset (P4). Both as Labels
// makes them. A job that asks for none is taken by none of ours.
func Serves(runner, job []string) bool {
	lacks := func(label string) bool {
		_, has := slices.BinarySearch(runner, label)
		return !has
	}
	return len(job) > 0 && !slices.ContainsFunc(job, lacks)
}
