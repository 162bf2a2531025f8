package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/xerrors"
)

// envVariable is the annotation of a flag that an environment variable can also set.
const envVariable = "prewarm_env"

// fromEnv lets a variable set a flag that is not on the command line: PREWARM_DATA_DIR for data-dir. An empty one is as
// good as none.
func fromEnv(flag *pflag.Flag) {
	variable := "PREWARM_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
	flag.Annotations = map[string][]string{envVariable: {variable}}
	flag.Usage += " [" + variable + "]"
}

func (a *app) takeEnv(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variables := f.Annotations[envVariable]
		if f.Changed || len(variables) == 0 || failed != nil {
			return
		}
		if value := a.env(variables[0]); value != "" {
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				failed = usageErrorf("%s: %v", variables[0], err)
			}
		}
	})
	return failed
}

// readTrimmed reads a file without the space around what is in it. what is said of it in an error.
func readTrimmed(what, file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", xerrors.Errorf("read %s: %w", what, err)
	}
	return strings.TrimSpace(string(content)), nil
}

// valueOrFile is the value of a flag, or what is in the file of the flag of that name with -file.
func valueOrFile(flag, what, value, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	if value != "" {
		return "", usageErrorf("--%s and --%s-file cannot both be given", flag, flag)
	}
	content, err := readTrimmed(what, file)
	if err == nil && content == "" {
		err = xerrors.Errorf("read %s: %s is empty", what, file)
	}
	return content, err
}

// given is a duration as the API takes it, empty where none is.
func given(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// exactArgs checks the arguments against the words of a command's Use, such as "show NAME": one argument for each,
// and what stands for a preset names one.
func exactArgs(cmd *cobra.Command, args []string) error {
	wanted := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) < len(wanted):
		return usageErrorf("%s is missing", wanted[len(args)])
	case len(args) > len(wanted):
		return usageErrorf("unexpected argument %q", args[len(wanted)])
	case len(wanted) > 0 && wanted[0] == "TEMPLATE/PRESET":
		_, _, err := presetArg(args[0])
		return err
	}
	return nil
}

// presetArg splits TEMPLATE/PRESET.
func presetArg(arg string) (template, preset string, err error) {
	template, preset, ok := strings.Cut(arg, "/")
	if !ok || template == "" || preset == "" || strings.Contains(preset, "/") {
		return "", "", usageErrorf("%q is not a preset: write TEMPLATE/PRESET, such as quickstart/default", arg)
	}
	return template, preset, nil
}

// filterFlag narrows a list as the field above the same list of the pages does.
func filterFlag(cmd *cobra.Command, q *string, of string) {
	cmd.Flags().StringVar(q, "filter", "", "only those with each of these words as a part of "+of+", in any case")
}
