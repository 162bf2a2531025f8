package templates

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// maxRanges of a schedule: each is looked at with each other, and at each pass.
const maxRanges = 50

// schedule reads the times at which a preset has other instances (C9), as canonical JSON; nil where it is wrong.
func (d decoder) schedule(n ast.Node) json.RawMessage {
	s := prebuilds.StoredSchedule{Timezone: "UTC", Ranges: []prebuilds.Range{}}
	before := len(d.problems.List)
	timezoneAt := position(n)
	var at []Pos
	d.object(n, "schedule",
		setting{key: "timezone", read: func(n ast.Node) { s.Timezone, timezoneAt = d.text(n, "timezone"), position(n) }},
		setting{key: "ranges", required: true, read: func(n ast.Node) {
			d.list(n, "ranges", func(n ast.Node) {
				s.Ranges, at = append(s.Ranges, d.scheduleRange(n)), append(at, position(n))
			})
			if len(s.Ranges) == 0 || len(s.Ranges) > maxRanges {
				d.problems.add(position(n), "ranges has %d entries: it must have 1 to %d", len(s.Ranges), maxRanges)
			}
		}})
	if len(d.problems.List) > before {
		return nil
	}
	_, err := prebuilds.NewSchedule(s.Timezone, s.Ranges)
	if wrong, is := errors.AsType[*prebuilds.ScheduleError](err); is {
		if wrong.Range >= 0 {
			timezoneAt = at[wrong.Range]
		}
		d.problems.add(timezoneAt, "schedule: %s", wrong.Message)
		return nil
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		d.problems.add(position(n), "schedule cannot be written as JSON: %v", err)
		return nil
	}
	return encoded
}

func (d decoder) scheduleRange(n ast.Node) prebuilds.Range {
	var r prebuilds.Range
	d.object(n, "range",
		setting{key: "cron", required: true, read: func(n ast.Node) { r.Cron = strings.TrimSpace(d.text(n, "cron")) }},
		setting{key: "instances", required: true, read: func(n ast.Node) {
			r.Instances = int(d.integer(n, "instances", 0, MaxInstances, ""))
		}})
	return r
}

// percent reads a share like "10%" as whole per cent, from 0 to most.
func (d decoder) percent(n ast.Node, what string, most int32) int32 {
	s, ok := n.(*ast.StringNode)
	if !ok {
		d.problems.add(position(n), `%s must be a share like "10%%", not %s`, what, describe(n))
		return 0
	}
	digits, ok := strings.CutSuffix(s.Value, "%")
	value, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || value > uint64(most) {
		d.problems.add(position(n), `%s %s: it must be whole per cent, "0%%" to "%d%%"`, what, quote(s.Value), most)
		return 0
	}
	return int32(value)
}
