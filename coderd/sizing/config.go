package sizing

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/xerrors"
)

// Mode says what becomes of what autosize computes.
type Mode string

// The modes of autosize.
const (
	ModeApply    Mode = "apply"    // the size takes the place of the preset's instances
	ModeForecast Mode = "forecast" // it is shown, and the instances stay
	ModeOff      Mode = "off"      // it is not computed
)

// Modes are all modes.
var Modes = []Mode{ModeApply, ModeForecast, ModeOff}

// Config is the setting of a preset, as it is stored.
type Config struct {
	Mode     Mode    `json:"mode"`
	Min      int     `json:"min"`
	Max      int     `json:"max"`
	Target   float64 `json:"target"`             // hit rate, between 0 and 1
	Timezone string  `json:"timezone,omitempty"` // empty: UTC
}

// Settings are those of Step.
func (c Config) Settings() (Settings, error) {
	location, err := time.LoadLocation(c.Timezone) // the empty name is UTC
	if err != nil {
		return Settings{}, xerrors.Errorf("load timezone: %w", err)
	}
	return Settings{Min: c.Min, Max: c.Max, Target: c.Target, Location: location}, nil
}

// Percent writes a fraction as a percentage: 0.995 is 99.5%.
func Percent(fraction float64) string {
	s := strconv.FormatFloat(100*fraction, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}
