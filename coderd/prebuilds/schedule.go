package prebuilds

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// Range is one rule of a schedule: at every minute that the cron expression matches, the preset has these instances. So
// `* 8-18 * * 1-5` is 8:00 to 18:59 from Monday to Friday.
type Range struct {
	Cron      string `json:"cron"` // minute, hour, day of month, month, day of week
	Instances int    `json:"instances"`
}

// StoredSchedule is a schedule as a preset's row has it.
type StoredSchedule struct {
	Timezone string  `json:"timezone"`
	Ranges   []Range `json:"ranges"`
}

// DecodeSchedule makes the schedule of a preset's row.
func DecodeSchedule(stored json.RawMessage) (*Schedule, error) {
	var s StoredSchedule
	if err := json.Unmarshal(stored, &s); err != nil {
		return nil, xerrors.Errorf("decode schedule: %w", err)
	}
	made, err := NewSchedule(s.Timezone, s.Ranges)
	if err != nil {
		return nil, xerrors.Errorf("read schedule: %w", err)
	}
	return made, nil
}

// Schedule says at which times a preset has other instances than its own (C9). It goes by the clock on the wall of its
// timezone: an hour that a DST change leaves out belongs to no range, and one that comes twice belongs to its range both
// times. At no minute do two of its ranges apply.
type Schedule struct {
	Timezone string // such as Europe/Berlin
	location *time.Location
	ranges   []scheduled
	step     time.Duration // at which it can change: whole quarters of an hour, or minutes
}

type scheduled struct {
	Range
	times *cron.SpecSchedule
}

// ScheduleError is what is wrong with a schedule: with one of its ranges, by its index, or at -1 with the timezone.
type ScheduleError struct {
	Range   int
	Message string
}

func (e *ScheduleError) Error() string { return e.Message }

const (
	cronFields = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow
	cronAdvice = `write minute, hour, day of month, month and day of week (0 is Sunday), like "* 8-18 * * 1-5"`

	starBit   = 1 << 63 // of a cron field: "*" without a step
	allHour   = 1<<60 - 1
	quarter   = 15 * time.Minute // offsets from UTC are multiples of it, and so are the instants of DST changes
	lookAhead = time.Hour
)

// NewSchedule checks a schedule. The error is a *ScheduleError, in words for whoever wrote it.
func NewSchedule(timezone string, ranges []Range) (*Schedule, error) {
	s := &Schedule{Timezone: timezone, step: quarter}
	var err error
	if s.location, err = time.LoadLocation(timezone); err != nil || timezone == "" || timezone == "Local" {
		return nil, &ScheduleError{-1, fmt.Sprintf("unknown timezone %q: take a name of the IANA database, such as UTC or "+
			"Europe/Berlin", timezone)}
	}
	for i, r := range ranges {
		times, err := parseCron(r.Cron)
		if err != nil {
			return nil, &ScheduleError{i, fmt.Sprintf("cron %q: %s", r.Cron, err)}
		}
		if r.Instances < 0 {
			return nil, &ScheduleError{i, fmt.Sprintf("cron %q: instances is negative: %d", r.Cron, r.Instances)}
		}
		next := scheduled{r, times}
		if _, ever := meet(next, next); !ever {
			return nil, &ScheduleError{i, fmt.Sprintf("cron %q never comes: no month has such a day", r.Cron)}
		}
		for _, before := range s.ranges {
			if when, both := meet(before, next); both {
				return nil, &ScheduleError{i, fmt.Sprintf("%q (%d instances) and %q (%d instances) overlap, for example on %s: "+
					"change one of them", before.Cron, before.Instances, next.Cron, next.Instances, when)}
			}
		}
		if times.Minute&allHour != allHour {
			s.step = time.Minute
		}
		s.ranges = append(s.ranges, next)
	}
	return s, nil
}

func parseCron(expression string) (*cron.SpecSchedule, error) {
	if strings.ContainsAny(expression, "=@") {
		return nil, xerrors.New("is not a range of times: " + cronAdvice + "; the timezone is a setting of its own")
	}
	parsed, err := cron.NewParser(cronFields).Parse(expression)
	if err != nil {
		return nil, xerrors.Errorf("%s: %s", strings.TrimSuffix(err.Error(), ": "+expression), cronAdvice)
	}
	times, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, xerrors.New("is not a range of times: " + cronAdvice)
	}
	return times, nil
}

// onDay says whether the range has anything of such a day. As everywhere in cron, a day of month and a day of week that
// are both restricted are alternatives.
func (r scheduled) onDay(month time.Month, day int, weekday time.Weekday) bool {
	ofMonth, ofWeek := r.times.Dom&(1<<day) != 0, r.times.Dow&(1<<weekday) != 0
	if r.times.Month&(1<<month) == 0 {
		return false
	}
	if r.times.Dom&starBit != 0 || r.times.Dow&starBit != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

func (r scheduled) at(local time.Time) bool {
	return r.times.Minute&(1<<local.Minute()) != 0 && r.times.Hour&(1<<local.Hour()) != 0 &&
		r.onDay(local.Month(), local.Day(), local.Weekday())
}

// daysOf is the most days that a month has in any year.
var daysOf = [...]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// meet finds a time that is in both ranges. Each date falls on each day of the week in some year, so it looks at all
// kinds of days and not at a calendar.
func meet(a, b scheduled) (when string, ever bool) {
	hours, minutes := a.times.Hour&b.times.Hour, a.times.Minute&b.times.Minute
	hour, minute := lowest(hours, 24), lowest(minutes, 60)
	if hour < 0 || minute < 0 {
		return "", false
	}
	for month := time.January; month <= time.December; month++ {
		for day := 1; day <= daysOf[month]; day++ {
			for i := range 7 {
				weekday := time.Weekday((i + 1) % 7) // from Monday on
				if a.onDay(month, day, weekday) && b.onDay(month, day, weekday) {
					return fmt.Sprintf("a %s, %d %s at %02d:%02d", weekday, day, month, hour, minute), true
				}
			}
		}
	}
	return "", false
}

func lowest(bits uint64, end int) int {
	for i := range end {
		if bits&(1<<i) != 0 {
			return i
		}
	}
	return -1
}

// Ranges are its rules, as they were written.
func (s *Schedule) Ranges() []Range {
	return lists.Of(s.ranges, func(r scheduled) Range { return r.Range })
}

// At is the rule that applies at t, if any does.
func (s *Schedule) At(t time.Time) (Range, bool) {
	local := t.In(s.location)
	for _, r := range s.ranges {
		if r.at(local) {
			return r.Range, true
		}
	}
	return Range{}, false
}

// look is when to look at the schedule again: when it changes, but within the hour. In between nothing changes.
func (s *Schedule) look(now time.Time) time.Time {
	rule, _ := s.At(now)
	t := now.Truncate(s.step)
	for end := now.Add(lookAhead); t.Before(end); {
		t = t.Add(s.step)
		if next, _ := s.At(t); next != rule {
			return t
		}
	}
	return t
}

// Window is a time during which one rule applies, or none: then Cron is empty and Instances is the preset's own.
type Window struct {
	From      time.Time `json:"from"` // in the schedule's timezone
	To        time.Time `json:"to"`   // exclusive
	Instances int       `json:"instances"`
	Cron      string    `json:"cron,omitempty"`
}

// Windows are those from one instant to another, without a gap. instances is the preset's own. Without a schedule there
// is one window, in UTC.
func (s *Schedule) Windows(instances int, from, to time.Time) []Window {
	if s == nil {
		return []Window{{From: from.UTC(), To: to.UTC(), Instances: instances}}
	}
	rule := func(t time.Time) Range {
		if r, ok := s.At(t); ok {
			return r
		}
		return Range{Instances: instances}
	}
	var windows []Window
	for t := from; t.Before(to); t = t.Truncate(s.step).Add(s.step) {
		r := rule(t)
		if last := len(windows) - 1; last < 0 || (Range{windows[last].Cron, windows[last].Instances}) != r {
			if last >= 0 {
				windows[last].To = t.In(s.location)
			}
			windows = append(windows, Window{From: t.In(s.location), Instances: r.Instances, Cron: r.Cron})
		}
	}
	if last := len(windows) - 1; last >= 0 {
		windows[last].To = to.In(s.location)
	}
	return windows
}
