package main

import "time"

// inZone is an instant in a timezone, with its name for it; as it is where this machine does not know the timezone.
func inZone(t time.Time, timezone string) time.Time {
	location, err := time.LoadLocation(timezone)
	if err != nil {
		return t
	}
	return t.In(location)
}
