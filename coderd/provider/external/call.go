package external

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cloudbase/garm-provider-common/execution/common"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// request is one call of the executable.
type request struct {
	command      common.ExecutionCommand
	protocol     string    // empty: the one that was agreed on
	installation uuid.UUID // Nil: the provider's own
	instance     string    // the provider's id, or the name
	extraSpecs   json.RawMessage
	stdin        []byte
	secrets      secrets // beside those of the configuration
}

// exitError is a call that ended with another exit status than 0.
type exitError struct {
	command common.ExecutionCommand
	code    int    // -1: by a signal
	how     string // exit status 1
	said    string // what it last wrote to its standard error, without secrets
}

func (e *exitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s ended with %s and said nothing", e.command, e.how)
	}
	return fmt.Sprintf("%s ended with %s: %s", e.command, e.how, e.said)
}

// exitedWith says whether the executable ended with that exit status.
func exitedWith(err error, code int) bool {
	var e *exitError
	return errors.As(err, &e) && e.code == code
}

// call runs the executable and returns what it wrote to its standard output.
func (p *Provider) call(ctx context.Context, r request) ([]byte, error) {
	env, hidden, err := p.environment(r)
	if err != nil {
		return nil, xerrors.Errorf("prepare %s: %w", r.command, err)
	}
	timeout := p.config.Timeouts.of(r.command)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := process{
		path: p.config.Executable, dir: filepath.Dir(p.config.ConfigFile), env: env, stdin: r.stdin,
	}.run(limited, p.clock)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, xerrors.Errorf("%s: %w", r.command, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return nil, xerrors.Errorf("%s did not end within %s, and was ended", r.command, timeout)
	case err != nil:
		return nil, xerrors.Errorf("%s: %w", r.command, err)
	case out.status.Signaled():
		return nil, &exitError{r.command, -1, "signal " + out.status.Signal().String(), lastWords(out.stderr, hidden)}
	case out.status.ExitStatus() != 0:
		code := out.status.ExitStatus()
		return nil, &exitError{r.command, code, fmt.Sprintf("exit status %d", code), lastWords(out.stderr, hidden)}
	}
	return out.stdout, nil
}

// ask is a call whose answer is JSON.
func (p *Provider) ask(ctx context.Context, r request, into any) error {
	answer, err := p.call(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		// The answer itself is not shown: it may hold anything.
		return xerrors.Errorf("%s succeeded, but its answer of %d bytes is not what the protocol says: %w", r.command,
			len(answer), err)
	}
	return nil
}

// environment is all that the executable gets to see, and what of it must not get into messages.
func (p *Provider) environment(r request) ([]string, secrets, error) {
	hidden := slices.Clone(r.secrets)
	vars := map[string]string{}
	for key, value := range p.config.Environment {
		vars[key] = value
		if secretName.MatchString(key) {
			hidden.add(value)
		}
	}
	for key, file := range p.config.EnvironmentFromFiles {
		value, err := readValue(file)
		if err != nil {
			return nil, nil, xerrors.Errorf("read variable %s: %w", key, err)
		}
		vars[key] = value
		hidden.add(value)
	}
	content, err := os.ReadFile(p.config.ConfigFile)
	if err != nil {
		return nil, nil, xerrors.Errorf("read config_file: %w", err)
	}
	hidden.add(secretsIn(string(content))...)

	installation, protocol := r.installation, r.protocol
	if installation == uuid.Nil {
		installation = p.installation
	}
	protocol = cmp.Or(protocol, p.facts.protocol)
	vars["GARM_COMMAND"] = string(r.command)
	vars["GARM_PROVIDER_CONFIG_FILE"] = p.config.ConfigFile
	vars["GARM_CONTROLLER_ID"] = p.controller(installation)
	vars["GARM_INTERFACE_VERSION"] = protocol
	newer := protocol == common.Version011
	if newer || r.command == common.CreateInstanceCommand || r.command == common.ListInstancesCommand {
		vars["GARM_POOL_ID"] = p.pool(installation)
	}
	if r.instance != "" {
		vars["GARM_INSTANCE_ID"] = r.instance
	}
	if newer {
		extraSpecs := r.extraSpecs
		if extraSpecs == nil {
			extraSpecs = p.defaultExtraSpecs()
		}
		vars["GARM_POOL_EXTRASPECS"] = base64.StdEncoding.EncodeToString(extraSpecs)
	}
	return provider.Environ(vars), hidden, nil
}

// defaultExtraSpecs are sent with calls about one instance, of which no spec is at hand.
func (p *Provider) defaultExtraSpecs() json.RawMessage {
	var s spec
	_ = s.overlay(p.defaults) // New has refused bad ones
	return s.extraSpecs()
}

// maxWords is how much of what an executable says gets into an error.
const maxWords = 1000

var crash = regexp.MustCompile(`(?m)^(panic|fatal error): `)

// lastWords is the end of a standard error, fit to be shown. Of a crash of a Go program it is the beginning, without the
// stacks.
func lastWords(stderr string, hidden secrets) string {
	text := strings.TrimSpace(hidden.redact(stderr))
	if at := crash.FindStringIndex(text); at != nil {
		text, _, _ = strings.Cut(text[at[0]:], "\n\ngoroutine ")
	}
	if len(text) > maxWords {
		text = "… " + strings.ToValidUTF8(text[len(text)-maxWords:], "")
	}
	return text
}
