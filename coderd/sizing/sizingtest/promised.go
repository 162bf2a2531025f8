package sizingtest

import "time"

// Promised are shapes that the promise of SIZING.md is held to: the target less at most half a point. They were committed
// before the work on that promise began. Work looks at them under TuningSeeds; they are judged under JudgingSeeds.
var Promised = []Shape{
	{
		Name: "round-the-clock", What: "offices on three continents, claims at all hours, three stand-ups a day",
		Curve: [24]float64{
			24, 26, 26, 24, 20, 18, 18, 24, 30, 34, 34, 30, 24, 28, 30, 32, 34, 34, 30, 26, 24, 24, 22, 22,
		},
		Weekend: 0.1, Holidays: 1, DaySpread: 0.15, Growth: 1, Batch: 1,
		Bursts: []Burst{
			{At: 90 * time.Minute, Jitter: 3 * time.Minute, PerDay: 1, Least: 8, Most: 14, Over: 8 * time.Minute},
			{At: 9*time.Hour + 30*time.Minute, Jitter: 3 * time.Minute, PerDay: 1, Least: 8, Most: 14, Over: 8 * time.Minute},
			{At: 17*time.Hour + 30*time.Minute, Jitter: 3 * time.Minute, PerDay: 1, Least: 8, Most: 14, Over: 8 * time.Minute},
			{At: -1, PerDay: 0.5, Least: 6, Most: 15, Over: 5 * time.Minute},
		},
	},
	{
		Name: "team-of-ten", What: "ten people, three claims each on a working day",
		Curve: [24]float64{
			0, 0, 0, 0, 0, 0, 0.1, 0.5, 2, 3.5, 3.5, 3, 2, 3, 3.5, 3.5, 3, 1.5, 0.6, 0.2, 0.1, 0, 0, 0,
		},
		Weekend: 0.03, DaySpread: 0.25, Growth: 1, Batch: 1,
	},
	{
		Name: "growth-6", What: "an office that grows by 6 % a day, unannounced bursts twice a week",
		Curve: [24]float64{
			0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.5, 2, 8, 13, 14, 12, 7, 11, 14, 13, 11, 6, 3, 1.5, 1, 0.6, 0.4, 0.2,
		},
		Weekend: 0.06, DaySpread: 0.2, Growth: 1.06, Batch: 1,
		Bursts: []Burst{{At: -1, PerDay: 0.4, Least: 5, Most: 12, Over: 5 * time.Minute}},
	},
	{
		Name: "batches-8", What: "batches of 8 on average, an unannounced burst of 15 to 35 on each working day",
		Curve: [24]float64{
			3, 3, 3, 3, 3, 3, 5, 15, 40, 70, 80, 70, 50, 65, 80, 80, 65, 40, 20, 12, 8, 6, 4, 3,
		},
		Weekend: 0.12, DaySpread: 0.2, Growth: 1, Batch: 8,
		Bursts: []Burst{{At: -1, PerDay: 1, Least: 15, Most: 35, Over: 5 * time.Minute}},
	},
	{
		Name: "matrices-12", What: "pushes that start 12 jobs on average, 50 to 70 jobs at 01:00 every night",
		Curve: [24]float64{
			3, 3, 3, 3, 3, 3, 4, 10, 40, 70, 80, 80, 60, 70, 80, 80, 70, 45, 25, 15, 10, 8, 5, 3,
		},
		Weekend: 0.12, DaySpread: 0.2, Growth: 1, Batch: 12,
		Bursts: []Burst{{At: time.Hour, Daily: true, PerDay: 1, Least: 50, Most: 70, Over: 3 * time.Minute}},
	},
}
