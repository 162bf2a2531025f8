// Command reference is a GARM external provider, by the protocol's own library, whose cloud is a directory: see package
// externaltest.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cloudbase/garm-provider-common/execution"
	"github.com/cloudbase/garm-provider-common/execution/common"
	executionv010 "github.com/cloudbase/garm-provider-common/execution/v0.1.0"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "linger" {
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
		return
	}
	answer, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed to run command:", err)
		os.Exit(common.ResolveErrorToExitCode(err))
	}
	fmt.Print(answer)
}

func run(ctx context.Context) (string, error) {
	raw, err := os.ReadFile(os.Getenv("GARM_PROVIDER_CONFIG_FILE"))
	if err != nil {
		return "", xerrors.Errorf("read configuration: %w", err)
	}
	c := &cloud{controller: os.Getenv("GARM_CONTROLLER_ID"), pool: os.Getenv("GARM_POOL_ID")}
	if err := json.Unmarshal(raw, &c.config); err != nil {
		return "", xerrors.Errorf("read configuration: %w", err)
	}
	if err := record(c.config.Root); err != nil {
		return "", err
	}
	var execute func() (string, error)
	if c.config.Protocol == common.Version010 {
		env, err := executionv010.GetEnvironment()
		if err != nil {
			return "", xerrors.Errorf("read environment: %w", err)
		}
		execute = func() (string, error) { return env.Run(ctx, c) }
	} else {
		env, err := execution.GetEnvironment()
		if err != nil {
			return "", xerrors.Errorf("read environment: %w", err)
		}
		execute = func() (string, error) { return env.Run(ctx, c) }
	}
	switch command := os.Getenv("GARM_COMMAND"); {
	case command == "GetVersion" && c.config.Fault == externaltest.NoVersion:
		return "", xerrors.New("unknown GARM_COMMAND")
	case strings.HasPrefix(command, "Get") && command != "GetInstance":
	case c.config.Fault == externaltest.Broken:
		return "", xerrors.New("the credentials have expired")
	case c.config.Fault == externaltest.Chatty:
		_, _ = os.Stderr.WriteString(strings.Repeat("chatter chatter chatter\n", 200_000))
	case c.config.Fault == externaltest.Floods && command == "ListInstances":
		for {
			fmt.Print(strings.Repeat("[", 4096))
		}
	case c.config.Fault == externaltest.NotJSON:
		_, err := execute()
		return "All went well!", err
	}
	return execute()
}

// record appends the call to the file calls, and puts what was read of the standard input back in its place.
func record(root string) error {
	call := externaltest.Call{At: time.Now(), Command: os.Getenv("GARM_COMMAND"), Env: os.Environ()}
	call.Dir, _ = os.Getwd()
	if call.Command == "CreateInstance" {
		stdin, err := io.ReadAll(os.Stdin)
		if err != nil {
			return xerrors.Errorf("read standard input: %w", err)
		}
		call.Stdin = stdin
		again, w, err := os.Pipe()
		if err != nil {
			return xerrors.Errorf("make pipe: %w", err)
		}
		go func() {
			_, _ = io.Copy(w, bytes.NewReader(stdin))
			_ = w.Close()
		}()
		os.Stdin = again
	}
	line, err := json.Marshal(call)
	if err != nil {
		return xerrors.Errorf("encode call: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(root, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return xerrors.Errorf("record call: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return xerrors.Errorf("record call: %w", err)
	}
	return nil
}

// linger never ends, with a child that never does either.
func linger(root string, escape bool) {
	signal.Ignore(syscall.SIGTERM)
	child := exec.Command(os.Args[0], "linger") // itself
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: escape}
	if err := child.Start(); err != nil {
		panic(err)
	}
	_ = os.WriteFile(filepath.Join(root, "lingering"), fmt.Append(nil, child.Process.Pid), 0o600)
	time.Sleep(time.Hour)
}
