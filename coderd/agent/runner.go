package agent

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a runner gets its configuration from: files that only their owner may read, in the directory of the agent. They are
// secrets, and neither in its environment nor among its arguments.
const (
	runnerConfig    = "runner.json"
	runnerJITConfig = "runner.jitconfig"
	runnerToken     = "runner.token"
	// forgeAuthorities are no secret: what to trust the forge by.
	forgeAuthorities = "forge-ca.pem"
	// runnerBegun holds the incarnation that a configuration was read for: an agent that starts again has a runner already.
	runnerBegun = "runner.begun"
)

// startRunner registers the workspace's runner and starts it, and follows it to its end beside. An error means that there
// will be none. A workspace that is no runner has nothing to start.
func (a *agent) startRunner(ctx context.Context, m sdk.InstanceMetadata, env []string) error {
	begun := strconv.Itoa(m.Incarnation)
	if was, err := os.ReadFile(a.file(runnerBegun)); err == nil && string(was) == begun {
		a.Log.Info(ctx, "the runner was started by the agent before this one, and is left to itself")
		return nil
	}
	configuration, err := a.runnerConfiguration(ctx)
	if sdk.StatusOf(err) == http.StatusNotFound {
		a.Log.Info(ctx, "the workspace is no runner of a forge: nothing is run")
		return nil
	}
	if err != nil {
		return err
	}
	if err := writeFile(a.file(runnerBegun), []byte(begun)); err != nil {
		return xerrors.Errorf("write configuration of runner: %w", err)
	}
	env, err = a.writeRunner(configuration, env)
	if err != nil {
		return xerrors.Errorf("write configuration of runner: %w", err)
	}
	p, err := a.start(ctx, m.Agent.Runner, env, nil)
	if err != nil {
		a.forgetRunner(ctx)
		return xerrors.Errorf("runner could not be started: %w", err)
	}
	a.runner.Go(func() {
		_, how := p.wait()
		a.forgetRunner(ctx)
		a.tellRunnerEnd(ctx, "the runner "+how)
	})
	return nil
}

// runnerConfiguration asks until there is an answer: while the server is away, or the forge, or limits how often it is asked.
func (a *agent) runnerConfiguration(ctx context.Context) (sdk.RunnerConfiguration, error) {
	var failed backoff
	for {
		configuration, err := a.server.runnerConfiguration(ctx)
		if err == nil {
			return configuration, nil
		}
		if status := sdk.StatusOf(err); status == http.StatusNotFound || status == http.StatusConflict {
			return configuration, xerrors.Errorf("read configuration of runner: %w", err)
		}
		wait := max(failed.next(), sdk.RetryAfter(err))
		a.trouble(ctx, "read configuration of runner", failed, err)
		if !pause(ctx, a.Clock, wait, nil, "runner") {
			return configuration, ctx.Err()
		}
	}
}

// writeRunner writes the configuration, and returns the environment of the runner: what is no secret, and where the rest is.
func (a *agent) writeRunner(c sdk.RunnerConfiguration, env []string) ([]string, error) {
	env = append(env[:len(env):len(env)],
		"PREWARM_RUNNER_NAME="+c.Name, "PREWARM_RUNNER_URL="+c.URL, "PREWARM_RUNNER_LABELS="+strings.Join(c.Labels, ","),
		"PREWARM_RUNNER_GROUP="+c.Group, "PREWARM_RUNNER_CONFIG_FILE="+a.file(runnerConfig))
	for _, secret := range []struct{ variable, file, content string }{
		{"PREWARM_RUNNER_JITCONFIG_FILE", runnerJITConfig, c.JITConfig}, {"PREWARM_RUNNER_TOKEN_FILE", runnerToken, c.Token},
	} {
		if secret.content == "" {
			continue
		}
		if err := writeFile(a.file(secret.file), []byte(secret.content)); err != nil {
			return nil, err
		}
		env = append(env, secret.variable+"="+a.file(secret.file))
	}
	return env, writeFile(a.file(runnerConfig), append(encode(c), '\n'))
}

// forgetRunner removes the secrets of a runner that has ended.
func (a *agent) forgetRunner(ctx context.Context) {
	for _, name := range []string{runnerConfig, runnerJITConfig, runnerToken} {
		if err := os.Remove(a.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			a.Log.Warn(ctx, "remove configuration of runner", slog.Error(err))
		}
	}
}

// tellRunnerEnd reports that the runner has ended until it is heard, so that the workspace is collected at once. Where the
// token is refused again, read anew, the workspace's work is over, and nobody needs to hear.
func (a *agent) tellRunnerEnd(ctx context.Context, how string) {
	var failed backoff
	for ctx.Err() == nil {
		err := a.server.reportRunner(ctx, sdk.RunnerReport{Status: "finished", Message: clip(how)})
		if status := sdk.StatusOf(err); err == nil || status == http.StatusNotFound || status == http.StatusUnauthorized && failed.failures > 0 {
			return
		}
		wait := failed.next()
		a.trouble(ctx, "report the end of the runner", failed, err)
		if !pause(ctx, a.Clock, wait, nil, "runner") {
			return
		}
	}
}

// begin runs what makes a workspace ready: on_start, then its runner where it is to be one. False: it will not be.
func (a *agent) begin(ctx context.Context, m sdk.InstanceMetadata, env []string) bool {
	env, err := a.writeAuthorities(m, env)
	if err == nil && len(m.Agent.OnStart) > 0 {
		err = a.script(ctx, "on_start", m.Agent.OnStart, env)
	}
	if err == nil && len(m.Agent.Runner) > 0 {
		err = a.startRunner(ctx, m, env)
	}
	if err != nil && ctx.Err() == nil {
		a.set(sdk.AgentUnhealthy, clip(err.Error()), uuid.Nil)
	}
	return err == nil
}

// writeAuthorities writes what to trust the forge by, and returns the environment with its file: on_start may ask the forge for
// something already.
func (a *agent) writeAuthorities(m sdk.InstanceMetadata, env []string) ([]string, error) {
	if m.ForgeCABundle == "" {
		return env, nil
	}
	if err := writeFile(a.file(forgeAuthorities), []byte(m.ForgeCABundle)); err != nil {
		return nil, xerrors.Errorf("write authorities of the forge: %w", err)
	}
	return append(env[:len(env):len(env)], "PREWARM_FORGE_CA_FILE="+a.file(forgeAuthorities)), nil
}
