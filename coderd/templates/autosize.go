package templates

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
)

// defaultTarget is the hit rate that autosize aims at.
const defaultTarget = 0.99

// autosize reads how a pool is sized by its history; nil where it is off or not readable.
func (d decoder) autosize(n ast.Node) *sizing.Config {
	c := sizing.Config{Mode: sizing.ModeOff, Min: 1, Target: defaultTarget}
	before := len(d.problems.List)
	d.object(n, "autosize",
		setting{key: "mode", required: true, read: func(n ast.Node) { c.Mode = d.mode(n) }},
		setting{key: "min", read: func(n ast.Node) { c.Min = int(d.integer(n, "min", 0, MaxInstances, "")) }},
		setting{key: "max", required: true, read: func(n ast.Node) { c.Max = int(d.integer(n, "max", 1, MaxInstances, "")) }},
		setting{key: "target", read: func(n ast.Node) { c.Target = d.percentage(n, "target") }},
		setting{key: "timezone", read: func(n ast.Node) { c.Timezone = d.timezone(n) }})
	if len(d.problems.List) > before {
		return nil
	}
	if c.Min > c.Max {
		d.problems.add(position(n), "autosize: min %d is above max %d: no size is within them; lower min or raise max", c.Min,
			c.Max)
		return nil
	}
	if c.Mode == sizing.ModeOff {
		return nil
	}
	return &c
}

// mode reads a mode of autosize. YAML 1.1 takes a bare off for false, so that is understood.
func (d decoder) mode(n ast.Node) sizing.Mode {
	if b, ok := n.(*ast.BoolNode); ok && !b.Value {
		return sizing.ModeOff
	}
	s := d.text(n, "mode")
	for _, m := range sizing.Modes {
		if s == string(m) {
			return m
		}
	}
	if _, ok := n.(*ast.StringNode); ok {
		known := []string{string(sizing.ModeApply), string(sizing.ModeForecast), string(sizing.ModeOff)}
		d.problems.add(position(n), "mode of autosize is %s%s: it must be one of %s", quote(s), DidYouMean(s, known),
			strings.Join(known, ", "))
	}
	return sizing.ModeOff
}

// percentage reads a part of a whole that is neither nothing nor all of it, such as "99%" or "99.5%", as a fraction.
func (d decoder) percentage(n ast.Node, what string) float64 {
	token := n.GetToken().Value
	s, found := strings.CutSuffix(strings.TrimSpace(token), "%")
	if _, text := n.(*ast.StringNode); !text || !found {
		d.problems.add(position(n), "%s must be a percentage, not %s: write it like 99%% or 99.5%%", what, quote(token))
		return 0
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case err != nil || math.IsNaN(value):
		d.problems.add(position(n), "%s %s is not a percentage: write it like 99%% or 99.5%%", what, quote(token))
		return 0
	case value <= 0 || value >= 100:
		d.problems.add(position(n), "%s is %s: it must be above 0%% and below 100%%: no pool is large enough to never miss",
			what, token)
		return 0
	}
	return value / 100
}

// timezone reads a name of the IANA database.
func (d decoder) timezone(n ast.Node) string {
	s := d.text(n, "timezone")
	if s == "" {
		return ""
	}
	if _, err := time.LoadLocation(s); err != nil || s == "Local" {
		d.problems.add(position(n), "timezone %s is not known: take a name such as Europe/Berlin or UTC", quote(s))
		return ""
	}
	return s
}

// cost reads an amount of money, without its currency.
func (d decoder) cost(n ast.Node, what string) float64 {
	var value float64
	switch n := n.(type) {
	case *ast.FloatNode:
		value = n.Value
	case *ast.IntegerNode:
		parsed, err := strconv.ParseFloat(n.GetToken().Value, 64)
		if err != nil {
			parsed = math.NaN()
		}
		value = parsed
	default:
		d.problems.add(position(n), "%s must be a number without a currency, not %s: write it like 0.12", what, describe(n))
		return 0
	}
	if !(value >= 0 && value <= maxIdleCost) {
		d.problems.add(position(n), "%s is %s: it must be between 0 and %d", what, n.GetToken().Value, maxIdleCost)
		return 0
	}
	return value
}

// autosize is the setting in a state; nil is off.
type autosize sizing.Config

// String has its parts, for a reader.
func (c *autosize) String() string {
	if c == nil {
		return "off"
	}
	s := fmt.Sprintf("%s, %d to %d, %s", c.Mode, c.Min, c.Max, sizing.Percent(c.Target))
	if c.Timezone != "" {
		s += ", " + c.Timezone
	}
	return s
}

func (c *autosize) inFile() any {
	// As somebody wrote it: what a fraction is not exact in is beyond twelve digits.
	target := strconv.FormatFloat(c.Target*100, 'g', 12, 64)
	o := object{"mode": c.Mode, "min": c.Min, "max": c.Max, "target": target + "%"}
	if c.Timezone != "" {
		o["timezone"] = c.Timezone
	}
	return o
}
