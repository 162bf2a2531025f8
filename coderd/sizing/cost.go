package sizing

// CostPerClaim is how much of what idle prebuilds cost falls on each claim of the same time, in the same currency; 0 where nothing
// was claimed.
func CostPerClaim(idle float64, claims int) float64 {
	if claims == 0 {
		return 0
	}
	return idle / float64(claims)
}
