package provider

import (
	"maps"
	"regexp"
	"strconv"

	"golang.org/x/xerrors"
)

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidName says whether a name is a DNS label, and so safe as the name of a file too.
func ValidName(name string) bool { return validName.MatchString(name) }

// CheckName refuses another name for good. The core never makes such a name; that a path can never leave its directory must
// not depend on it.
func CheckName(name string) error {
	if !ValidName(name) {
		return Permanent(xerrors.Errorf("name %q is not lower-case letters, digits and hyphens", name))
	}
	return nil
}

// Identity is the environment by which a workspace, and the user who claims it, know which one it is.
func Identity(name string, tags Tags, template, preset string) map[string]string {
	return map[string]string{
		"PREWARM_WORKSPACE":    name,
		"PREWARM_WORKSPACE_ID": tags.WorkspaceID.String(),
		"PREWARM_INCARNATION":  strconv.Itoa(int(tags.Incarnation)),
		"PREWARM_TEMPLATE":     template,
		"PREWARM_PRESET":       preset,
	}
}

// Environment is what a workspace's processes get: parameters of its preset, over these what its template sets, and its
// identity over all.
func Environment(parameters, template, identity map[string]string) map[string]string {
	env := map[string]string{}
	for name, value := range parameters {
		env[ParameterVariable(name)] = value
	}
	maps.Copy(env, template)
	maps.Copy(env, identity)
	return env
}
