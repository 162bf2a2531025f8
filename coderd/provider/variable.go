package provider

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

var validVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ValidVariable says whether a name may be that of a variable in an environment. One with "=" in it would be another
// variable than it says.
func ValidVariable(name string) bool { return validVariable.MatchString(name) }

// CheckEnvironment says what is wrong with the variables that somebody gives a command.
func CheckEnvironment(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !ValidVariable(name) {
			return xerrors.Errorf("environment: %q is not a name for a variable: use letters, digits and _, and no digit first", name)
		}
		if strings.ContainsRune(env[name], 0) {
			return xerrors.Errorf("environment: the value of %s has a NUL character in it", name)
		}
	}
	return nil
}

// ParameterVariable is the variable that carries a parameter: region-a becomes PARAM_REGION_A.
func ParameterVariable(name string) string {
	return "PARAM_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		}
		return '_'
	}, name)
}

// Environ lists variables as processes take them, in order of their names.
func Environ(env map[string]string) []string {
	return lists.Of(slices.Sorted(maps.Keys(env)), func(name string) string { return name + "=" + env[name] })
}
