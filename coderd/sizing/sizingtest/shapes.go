package sizingtest

import "time"

// ProvisionTime is how long a workspace of a trace takes from the decision to build it until it is ready.
const ProvisionTime = 5 * time.Minute

// Days is how long a trace lasts.
const Days = 28

// Start is when every trace begins: a Monday, 00:00 UTC.
var Start = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// Shape are the parameters of a kind of trace.
type Shape struct {
	Name, What string
	// Curve is the expected number of claims per hour at the full hours of a working day, 24 of them; between two of them
	// the rate changes in a straight line.
	Curve [24]float64
	// Weekend multiplies the curve on Saturdays and Sundays, and on holidays.
	Weekend float64
	// Holidays is how many working days of the trace, chosen by chance, are as quiet as a weekend.
	Holidays int
	// DaySpread is the coefficient of variation of a factor drawn for each day (gamma, mean 1): no two Mondays are alike.
	DaySpread float64
	// Growth multiplies the rate from one day to the next.
	Growth float64
	// Batch is how many claims come with each arrival, on average (geometric); 1 for single ones. The curve counts claims.
	Batch float64
	// Sizes, where there are any, are what batches have instead of geometric numbers, each as likely; Batch is their mean.
	Sizes []int
	// Bursts come in addition.
	Bursts []Burst
}

// Burst is many claims in a short time.
type Burst struct {
	// At is when it comes on each working day (on all days with Daily), as time since midnight; it comes up to Jitter
	// earlier or later. At below 0: at any moment between 09:00 and 17:00, and nobody knows when.
	At, Jitter time.Duration
	Daily      bool
	// PerDay is the expected number of them on a day, for those without a time; 1 for those with one.
	PerDay float64
	// Least and Most bound the number of claims (uniform), spread over Over (uniform).
	Least, Most int
	Over        time.Duration
}

// Office is what a size is tuned and judged by: some 350 people at one place, who come in between 8 and 10, have a stand-up
// after which many start something new, go to lunch and go home; a workshop now and then, which nobody announced; one holiday.
var Office = Shape{
	Name: "office",
	What: "working days with a stand-up at 09:30, unannounced workshops every other day, one holiday",
	Curve: [24]float64{
		0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 6, 24, 42, 42, 36, 20, 30, 42, 40, 32, 18, 8, 4, 3, 2, 1, 0.5,
	},
	Weekend: 0.05, Holidays: 1, DaySpread: 0.15, Growth: 1, Batch: 1,
	Bursts: []Burst{
		{At: 9*time.Hour + 30*time.Minute, Jitter: 3 * time.Minute, PerDay: 1, Least: 14, Most: 24, Over: 10 * time.Minute},
		{At: -1, PerDay: 0.5, Least: 8, Most: 20, Over: 5 * time.Minute},
	},
}

// CI is runners: pushes in working hours that start several jobs each, and a nightly run of everything.
var CI = Shape{
	Name: "ci",
	What: "pushes of 4 jobs on average in working hours, 40 jobs at 02:00 every night",
	Curve: [24]float64{
		2, 2, 2, 2, 2, 2, 3, 8, 40, 60, 70, 70, 50, 60, 70, 70, 60, 40, 20, 12, 8, 6, 4, 2,
	},
	Weekend: 0.1, Holidays: 0, DaySpread: 0.2, Growth: 1, Batch: 4,
	Bursts: []Burst{
		{At: 2 * time.Hour, Daily: true, PerDay: 1, Least: 35, Most: 45, Over: 2 * time.Minute},
	},
}

// TwoOffices is a pool on two continents that becomes popular: a second, smaller peak in the night, and 2 % more each day.
var TwoOffices = Shape{
	Name: "two-offices",
	What: "two offices eight hours apart, growing by 2 % a day, three unannounced bursts a week",
	Curve: [24]float64{
		2, 1, 1, 1, 1, 2, 6, 16, 30, 34, 34, 28, 20, 26, 30, 28, 26, 20, 16, 16, 14, 12, 8, 4,
	},
	Weekend: 0.08, Holidays: 1, DaySpread: 0.2, Growth: 1.02, Batch: 1,
	Bursts: []Burst{
		{At: 8*time.Hour + 45*time.Minute, Jitter: 5 * time.Minute, PerDay: 1, Least: 8, Most: 14, Over: 10 * time.Minute},
		{At: -1, PerDay: 0.6, Least: 6, Most: 15, Over: 5 * time.Minute},
	},
}

// Shapes are all that is judged, in the order of the table.
var Shapes = []Shape{Office, CI, TwoOffices}

// Tuning are shapes that the sizer was tuned on, beside Office; none of them is judged.
var Tuning = []Shape{
	{
		Name: "tuning-3", What: "batches of 3, 20 to 30 more at 04:00 every night",
		Curve:   [24]float64{1, 1, 1, 1, 1, 2, 5, 15, 30, 45, 50, 50, 45, 40, 50, 55, 50, 40, 30, 20, 15, 8, 4, 2},
		Weekend: 0.15, DaySpread: 0.15, Growth: 1, Batch: 3,
		Bursts: []Burst{{At: 4 * time.Hour, Daily: true, PerDay: 1, Least: 20, Most: 30, Over: 3 * time.Minute}},
	},
	{
		Name: "tuning-6", What: "batches of 6, 50 to 60 more at 22:00 every night",
		Curve:   [24]float64{3, 3, 3, 3, 4, 6, 10, 30, 60, 90, 100, 90, 60, 80, 100, 110, 90, 60, 40, 20, 10, 6, 4, 3},
		Weekend: 0.2, DaySpread: 0.25, Growth: 1, Batch: 6,
		Bursts: []Burst{{At: 22 * time.Hour, Daily: true, PerDay: 1, Least: 50, Most: 60, Over: 4 * time.Minute}},
	},
	{
		Name: "tuning-1", What: "single claims, two peaks, growing by 1.5 % a day, a stand-up, unannounced bursts",
		Curve:   [24]float64{8, 6, 3, 2, 1, 1, 3, 8, 20, 30, 36, 30, 22, 30, 34, 30, 22, 14, 12, 18, 20, 20, 16, 12},
		Weekend: 0.1, Holidays: 1, DaySpread: 0.2, Growth: 1.015, Batch: 1,
		Bursts: []Burst{
			{At: 10 * time.Hour, Jitter: 4 * time.Minute, PerDay: 1, Least: 10, Most: 16, Over: 8 * time.Minute},
			{At: -1, PerDay: 0.5, Least: 6, Most: 14, Over: 5 * time.Minute},
		},
	},
	{
		Name: "tuning-4", What: "batches of 4, no burst",
		Curve:   [24]float64{2, 2, 2, 2, 2, 2, 3, 10, 30, 60, 60, 60, 60, 60, 60, 60, 60, 50, 30, 15, 8, 6, 4, 2},
		Weekend: 0.1, DaySpread: 0.2, Growth: 1, Batch: 4,
	},
}
