package reconcile

import (
	"encoding/json"
	"sync"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// schedules keeps those that were read from presets' rows, since making one reads the file of its timezone.
type schedules struct {
	mu   sync.Mutex
	made map[string]*prebuilds.Schedule
}

// mostSchedules is when all are forgotten; there are so many only where they are changed all the time.
const mostSchedules = 10_000

// of is the schedule of a row; nil where it has none.
func (s *schedules) of(stored json.RawMessage) (*prebuilds.Schedule, error) {
	if stored == nil {
		return nil, nil //nolint:nilnil // A preset without a schedule is the usual one.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if made, ok := s.made[string(stored)]; ok {
		return made, nil
	}
	made, err := prebuilds.DecodeSchedule(stored)
	if err != nil {
		return nil, err
	}
	if s.made == nil || len(s.made) >= mostSchedules {
		s.made = map[string]*prebuilds.Schedule{}
	}
	s.made[string(stored)] = made
	return made, nil
}
