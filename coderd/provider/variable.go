package provider

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/xerrors"
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
