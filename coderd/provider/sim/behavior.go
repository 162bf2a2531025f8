package sim

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// Behavior is how the cloud treats its callers. The probabilities are from 0 to 1.
type Behavior struct {
	CreateLatency Latency `json:"create_latency"`
	ReadyLatency  Latency `json:"ready_latency"` // from the creation until Ready says so
	DeleteLatency Latency `json:"delete_latency"`
	StopLatency   Latency `json:"stop_latency"`
	StartLatency  Latency `json:"start_latency"`  // after it, a started one is ready
	Fail          float64 `json:"fail"`           // a create fails, and may be tried again
	FailPermanent float64 `json:"fail_permanent"` // a create fails for good
	Hang          float64 `json:"hang"`           // a call blocks until its context ends, before or after its effect
	Lie           float64 `json:"lie"`            // see the package comment
	ErrorStatus   float64 `json:"error_status"`   // a create makes an instance that is broken
}

// Latency is a span of time, of which every call takes a part at random.
type Latency struct{ Min, Max time.Duration }

// MarshalJSON writes what UnmarshalJSON reads.
func (l Latency) MarshalJSON() ([]byte, error) {
	if l.Min == l.Max {
		return json.Marshal(l.Min.String())
	}
	return json.Marshal(l.Min.String() + "-" + l.Max.String())
}

// UnmarshalJSON reads "50ms" or "20ms-80ms".
func (l *Latency) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s)
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	var err, err2 error
	l.Min, err = time.ParseDuration(low)
	l.Max, err2 = time.ParseDuration(high)
	if err != nil || err2 != nil || l.Max < l.Min || l.Max > time.Hour {
		return xerrors.New(`must be a duration such as "50ms", or a range such as "20ms-80ms", up to 1h`)
	}
	return nil
}

func (l Latency) pick(r *rand.Rand) time.Duration {
	return l.Min + time.Duration(r.Float64()*float64(l.Max-l.Min))
}

// with returns b with what raw says put over it, and all that is wrong with raw.
func (b Behavior) with(raw json.RawMessage) (Behavior, []provider.Problem) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return b, nil
	}
	var p specs.Reader
	p.Mapping("", raw, b.fields(&p))
	return b, p.Problems
}

// fields are what a mapping may say of it.
func (b *Behavior) fields(p *specs.Reader) specs.Fields {
	fields := specs.Fields{}
	for key, latency := range map[string]*Latency{
		"create_latency": &b.CreateLatency, "ready_latency": &b.ReadyLatency, "delete_latency": &b.DeleteLatency,
		"stop_latency": &b.StopLatency, "start_latency": &b.StartLatency,
	} {
		fields[key] = func(path string, raw json.RawMessage) {
			if err := latency.UnmarshalJSON(raw); err != nil {
				p.Add(path, "%s", err)
			}
		}
	}
	for key, probability := range map[string]*float64{
		"fail": &b.Fail, "fail_permanent": &b.FailPermanent, "hang": &b.Hang, "lie": &b.Lie, "error_status": &b.ErrorStatus,
	} {
		fields[key] = func(path string, raw json.RawMessage) {
			if json.Unmarshal(raw, probability) != nil || *probability < 0 || *probability > 1 {
				p.Add(path, "must be a number from 0 to 1")
			}
		}
	}
	return fields
}
