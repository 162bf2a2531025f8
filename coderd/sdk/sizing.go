package sdk

import (
	"context"
	"strconv"
	"time"
)

// PresetPast is what was claimed of a preset.
type PresetPast struct {
	Template         string    `json:"template"`
	Preset           string    `json:"preset"`
	Instances        int       `json:"instances" doc:"The preset's own"`
	From             time.Time `json:"from"`
	To               time.Time `json:"to"`
	Claims           int       `json:"claims"`
	Hits             int       `json:"hits" doc:"Claims that got a prebuild at once, with the sizes that the pool had"`
	ProvisionSeconds float64   `json:"provision_seconds" doc:"How long a prebuild takes until it is ready; 300 where none was made yet"`
	IdleCostPerHour  float64   `json:"idle_cost_per_hour" doc:"Of one prebuild, as the template says; 0: it does not say"`
	Cut              bool      `json:"cut,omitempty" doc:"There were more claims than are looked at; from is later than was asked for"`
}

// SizeOutcome is what a size would have made of the same claims.
type SizeOutcome struct {
	Size         string  `json:"size" doc:"A number of instances, or autosize"`
	Hits         int     `json:"hits"`
	HitRate      float64 `json:"hit_rate" doc:"Between 0 and 1"`
	IdleHours    float64 `json:"idle_hours" doc:"Hours that prebuilds were ready and unclaimed, summed"`
	MeanIdle     float64 `json:"mean_idle" doc:"Prebuilds idle on average"`
	Peak         int     `json:"peak" doc:"The largest size"`
	IdleCost     float64 `json:"idle_cost" doc:"Of all idle hours"`
	CostPerClaim float64 `json:"cost_per_claim" doc:"Cost of the idle hours for each claim"`
}

// PresetReplay is the past of a preset again, with other sizes.
type PresetReplay struct {
	PresetPast
	Outcomes []SizeOutcome `json:"outcomes"`
}

// PresetSize is a recommendation.
type PresetSize struct {
	PresetPast
	Target      float64       `json:"target" doc:"Hit rate aimed at, between 0 and 1"`
	Busiest     int           `json:"busiest" doc:"Claims in the busiest hour"`
	ModelWaits  int           `json:"model_waits" doc:"Size for the busiest hour where a miss waits (Poisson)"`
	ModelCold   int           `json:"model_cold" doc:"Size for the busiest hour where a miss goes cold (Erlang B)"`
	Recommended int           `json:"recommended"`
	Why         string        `json:"why"`
	Outcomes    []SizeOutcome `json:"outcomes"`
	Autosize    *Autosize     `json:"autosize,omitempty" doc:"Where it is on"`
}

// Autosize is the setting of a preset, and what it recommends now.
type Autosize struct {
	Mode         string     `json:"mode" enum:"apply,forecast,off"`
	Min          int        `json:"min"`
	Max          int        `json:"max"`
	Target       float64    `json:"target"`
	Timezone     string     `json:"timezone,omitempty"`
	Size         *int       `json:"size,omitempty" doc:"Computed last; none where it was not computed yet"`
	Forecast     int        `json:"forecast" doc:"What the same time in past weeks asks for"`
	Recent       int        `json:"recent" doc:"What the last half hour asks for"`
	Boost        float64    `json:"boost" doc:"Feedback from misses, a factor"`
	Reason       string     `json:"reason,omitempty" doc:"forecast, recent, shrinking, minimum, maximum or announced"`
	Unattainable string     `json:"unattainable,omitempty" doc:"Why the target is not reached; where the mode is apply"`
	ComputedAt   *time.Time `json:"computed_at,omitempty"`
	Attained     []Attained `json:"attained,omitempty" doc:"Over the last day and the last 7 days; where the mode is apply"`
}

// Attained is what claims attained with the sizes of autosize. Misses for which no reason is known are in none of the counts.
type Attained struct {
	Days      int     `json:"days"`
	Target    float64 `json:"target" doc:"Hit rate aimed at, between 0 and 1"`
	Claims    int     `json:"claims"`
	Hits      int     `json:"hits"`
	AtMaximum int     `json:"at_maximum" doc:"Misses where more claims came within one provision time than the maximum"`
	InBursts  int     `json:"in_bursts" doc:"Misses where more claims came within one provision time than the size, below the maximum"`
	Bursts    int     `json:"bursts" doc:"Periods of five minutes with such misses"`
	Unready   int     `json:"unready" doc:"Misses where fewer claims came than the size: prebuilds were not ready"`
	Why       string  `json:"why,omitempty" doc:"Why it is below the target, for people; empty where it is not"`
}

// PresetSize asks for a recommendation by the last days; a target of 0 is the preset's own, or 0.99.
func (c *Client) PresetSize(ctx context.Context, template, preset string, days int, target float64) (PresetSize, error) {
	fraction := ""
	if target != 0 {
		fraction = strconv.FormatFloat(target, 'f', -1, 64)
	}
	return ask[PresetSize](ctx, c, read("presets", template, preset, "size").where(query{
		"days": strconv.Itoa(days), "target": fraction,
	}))
}

// PresetReplay plays the last days again with a number of instances (below 0: the preset's own) and with autosize. `cold` says
// that a claim that misses goes elsewhere, instead of waiting.
func (c *Client) PresetReplay(ctx context.Context, template, preset string, days, instances int, cold bool) (PresetReplay, error) {
	size := ""
	if instances >= 0 {
		size = strconv.Itoa(instances)
	}
	return ask[PresetReplay](ctx, c, read("presets", template, preset, "replay").where(query{
		"days": strconv.Itoa(days), "instances": size, "cold": cold,
	}))
}
