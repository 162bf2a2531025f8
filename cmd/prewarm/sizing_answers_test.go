package main

import (
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a server says of sizes: of a busy preset with autosize on and a price, and of one that nobody ever claimed.

var testOutcomes = []sdk.SizeOutcome{
	{Size: "12", Hits: 1990, HitRate: 0.995, IdleHours: 1900.25, MeanIdle: 11.31, Peak: 12, IdleCost: 228.03, CostPerClaim: 0.114},
	{Size: "autosize", Hits: 1981, HitRate: 0.9905, IdleHours: 700, MeanIdle: 4.17, Peak: 19, IdleCost: 84, CostPerClaim: 0.042},
}

const testUnattainable = "1234 of the 2000 claims of the last day were hits: 61.7%, where the target is 99%"

var testAttained = []sdk.Attained{
	{
		Days: 1, Target: 0.99, Claims: 2000, Hits: 1234, AtMaximum: 700, InBursts: 60, Bursts: 2, Unready: 6,
		Why: "766 claims missed: 700 at the maximum of 40 prebuilds, 60 in 2 bursts that nothing announced, of more claims than " +
			"prebuilds, 6 while prebuilds were not ready",
	},
	{Days: 7, Target: 0.99, Claims: 20000, Hits: 19900},
}

func busyPast() sdk.PresetPast {
	return sdk.PresetPast{
		Template: "quickstart", Preset: "default", Instances: 3, From: before(7 * 24 * time.Hour), To: now, Claims: 2000,
		Hits: 1234, ProvisionSeconds: 83.27, IdleCostPerHour: 0.12,
	}
}

func sizedPreset() sdk.PresetSize {
	return sdk.PresetSize{
		PresetPast: busyPast(), Target: 0.995, Busiest: 60, ModelWaits: 6, ModelCold: 7, Recommended: 12,
		Why: "the smallest size whose replay reaches the target", Outcomes: testOutcomes,
		Autosize: &sdk.Autosize{
			Mode: "apply", Min: 1, Max: 40, Target: 0.99, Timezone: "Europe/Berlin", Size: ptr(9), Forecast: 9, Recent: 4,
			Boost: 1.25, Reason: "forecast", Unattainable: testUnattainable, ComputedAt: ptr(before(20 * time.Second)),
			Attained: testAttained,
		},
	}
}

func unclaimedPreset() sdk.PresetSize {
	return sdk.PresetSize{
		PresetPast: sdk.PresetPast{
			Template: "ci", Preset: "large", Instances: 10, From: before(3 * 24 * time.Hour), To: now, ProvisionSeconds: 300,
		},
		Target: 0.99, Recommended: 10, Why: "nothing was claimed: the size stays",
		Outcomes: []sdk.SizeOutcome{{Size: "10", HitRate: 1, IdleHours: 720, MeanIdle: 10, Peak: 10}},
	}
}
