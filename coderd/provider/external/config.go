package external

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cloudbase/garm-provider-common/execution/common"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// Config is a provider's configuration.
type Config struct {
	// Executable and ConfigFile are absolute paths. What the file holds is between the executable and whoever wrote it.
	Executable string `json:"executable"`
	ConfigFile string `json:"config_file"`
	// InterfaceVersion is v0.1.0 or v0.1.1; empty asks the executable.
	InterfaceVersion string `json:"interface_version"`
	// ControllerID and PoolID replace what follows from the installation; see the package comment.
	ControllerID string `json:"controller_id"`
	PoolID       string `json:"pool_id"`
	// Environment is what the executable gets beside the protocol's own variables, such as proxies and credentials.
	// Those from files are read at every call, so that credentials can be renewed.
	Environment          map[string]string `json:"environment"`
	EnvironmentFromFiles map[string]string `json:"environment_from_files"`
	Timeouts             Timeouts          `json:"timeouts"`
	// InstallScript is how the executable takes the script that an instance runs at its first boot: runner_install_template,
	// as that key of extra specs; or none, where it takes none. Empty: as its schema says, and none where it has no schema.
	InstallScript string `json:"install_script"`
	// NoStop: the executable cannot stop and start what it made, which the protocol has no way to say.
	NoStop bool `json:"no_stop"`
	// Defaults are a spec, from which templates differ in what they say themselves.
	Defaults json.RawMessage `json:"defaults"`
}

// Timeouts bound one run of the executable each; zero takes the default.
type Timeouts struct {
	Create specs.Duration `json:"create"` // 20m
	Delete specs.Duration `json:"delete"` // 20m
	Get    specs.Duration `json:"get"`    // 1m
	List   specs.Duration `json:"list"`   // 2m
	Start  specs.Duration `json:"start"`  // 10m
	Stop   specs.Duration `json:"stop"`   // 10m
	Probe  specs.Duration `json:"probe"`  // 10s, for all questions about versions and schemas together
}

func (t Timeouts) of(command common.ExecutionCommand) time.Duration {
	switch command {
	case common.CreateInstanceCommand:
		return t.Create.Or(20 * time.Minute)
	case common.DeleteInstanceCommand:
		return t.Delete.Or(20 * time.Minute)
	case common.ListInstancesCommand:
		return t.List.Or(2 * time.Minute)
	case common.StartInstanceCommand:
		return t.Start.Or(10 * time.Minute)
	case common.StopInstanceCommand:
		return t.Stop.Or(10 * time.Minute)
	case common.GetInstanceCommand:
		return t.Get.Or(time.Minute)
	default:
		return t.Probe.Or(10 * time.Second)
	}
}

// ParseConfig reads a configuration and looks whether what it names is there.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	err := specs.Config(raw, &c)
	return c, err
}

// Check says what is wrong with it.
func (c Config) Check() error {
	if err := checkFile("executable", c.Executable); err != nil {
		return err
	}
	if info, err := os.Stat(c.Executable); err == nil && info.Mode()&0o111 == 0 {
		return xerrors.Errorf("executable: %s may not be executed: chmod +x it", c.Executable)
	}
	if err := checkFile("config_file", c.ConfigFile); err != nil {
		return err
	}
	switch c.InterfaceVersion {
	case "", common.Version010, common.Version011:
	default:
		return xerrors.Errorf("interface_version: %q is neither %s nor %s; leave it out to ask the executable",
			c.InterfaceVersion, common.Version010, common.Version011)
	}
	switch c.InstallScript {
	case "", installTemplate, noScript:
	default:
		return xerrors.Errorf("install_script: %q is neither %s nor %s; leave it out to go by the executable's schema",
			c.InstallScript, installTemplate, noScript)
	}
	if c.PoolID != "" {
		if _, err := uuid.Parse(c.PoolID); err != nil {
			return xerrors.Errorf("pool_id: %q is not a UUID", c.PoolID)
		}
	}
	for key, value := range c.Environment {
		if err := checkVariable(key, value); err != nil {
			return xerrors.Errorf("environment: %w", err)
		}
	}
	for key, file := range c.EnvironmentFromFiles {
		if err := checkVariable(key, ""); err != nil {
			return xerrors.Errorf("environment_from_files: %w", err)
		}
		if _, twice := c.Environment[key]; twice {
			return xerrors.Errorf("environment_from_files: %s is in environment too", key)
		}
		if _, err := readValue(file); err != nil {
			return xerrors.Errorf("environment_from_files: %s: %w", key, err)
		}
	}
	return nil
}

func checkFile(key, path string) error {
	if !filepath.IsAbs(path) {
		return xerrors.Errorf("%s: give the absolute path of a file, not %q", key, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return xerrors.Errorf("%s: %w", key, err)
	}
	if !info.Mode().IsRegular() {
		return xerrors.Errorf("%s: %s is not a file", key, path)
	}
	return nil
}

func checkVariable(key, value string) error {
	switch {
	case !provider.ValidVariable(key):
		return xerrors.Errorf("%q is not a name for a variable", key)
	case strings.HasPrefix(key, "GARM_"):
		return xerrors.Errorf("%s: names that begin with GARM_ are the protocol's", key)
	case strings.ContainsRune(value, 0):
		return xerrors.Errorf("%s: its value contains a NUL character", key)
	}
	return nil
}

// maxValue bounds a variable from a file; the kernel takes no longer ones.
const maxValue = 128 << 10

// readValue is the content of a file without the line break at its end.
func readValue(path string) (string, error) {
	if err := checkFile("file", path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxValue))
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(content), "\r\n")
	if len(content) == maxValue || strings.ContainsRune(value, 0) {
		return "", xerrors.Errorf("%s is not the value of a variable", path)
	}
	return value, nil
}
