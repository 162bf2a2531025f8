package prebuilds

import (
	"strconv"
	"strings"

	"golang.org/x/xerrors"
)

// Share is a number of prebuilds, or per cent of desired, as it is written: "2", "25%"; empty where it is left out.
type Share string

// MaxShare is the most that a number may be. Per cent go up to 100.
const MaxShare = 10_000

// ParseShare checks a share that is not left out.
func ParseShare(s string) (Share, error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case err != nil:
		return "", xerrors.New(`must be a number or per cent of desired, such as 2 or "25%"`)
	case percent && n > 100:
		return "", xerrors.New(`must be at most "100%"`)
	case n > MaxShare:
		return "", xerrors.Errorf("must be at most %d", MaxShare)
	}
	return Share(s), nil
}

// Zero says whether it is given and none of anything.
func (s Share) Zero() bool {
	return s != "" && strings.TrimRight(strings.TrimSuffix(string(s), "%"), "0") == ""
}

// of is the share of n, with a part of one rounded up or down; def if it was left out, or is no share.
func (s Share) of(n int, up bool, def int) int {
	digits, percent := strings.CutSuffix(string(s), "%")
	value, err := strconv.Atoi(digits)
	switch {
	case err != nil || value < 0:
		return def
	case !percent:
		return value
	case up:
		return (n*value + 99) / 100
	default:
		return n * value / 100
	}
}
