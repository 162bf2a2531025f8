package judge

import (
	"slices"
	"time"
)

// availability: how long clients were without an answer. A miss is one.
func (j *judge) availability() {
	var answers []time.Time
	var first, last time.Time // asked
	for _, c := range j.Claims {
		if first.IsZero() || c.Asked.Before(first) {
			first = c.Asked
		}
		if c.Asked.After(last) {
			last = c.Asked
		}
		if !c.Answered.IsZero() {
			answers = append(answers, c.Answered)
			j.LongestWait = max(j.LongestWait, c.Answered.Sub(c.Asked))
		}
	}
	slices.SortFunc(answers, time.Time.Compare)
	from := first
	for _, at := range answers {
		if d := at.Sub(from); d > j.LongestOutage {
			j.LongestOutage, j.OutageFrom = d, from
		}
		if from = at; at.After(last) {
			break
		}
	}
}
