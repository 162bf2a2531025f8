package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cloudbase/garm-provider-common/cloudconfig"
	garmerrors "github.com/cloudbase/garm-provider-common/errors"
	"github.com/cloudbase/garm-provider-common/execution/common"
	"github.com/cloudbase/garm-provider-common/params"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
)

// cloud is one controller's view of the cloud, which is <root>/<controller>/<name>, a file for each instance.
type cloud struct {
	config           externaltest.Config
	controller, pool string
}

// machine is an instance and the pool it is in.
type machine struct {
	params.ProviderInstance

	Pool string `json:"pool"`
}

const unknownFlavor = "no-such-flavor"

// CreateInstance makes an instance in two steps, between which it is there and stopped.
func (c *cloud) CreateInstance(_ context.Context, b params.BootstrapInstance) (params.ProviderInstance, error) {
	none := params.ProviderInstance{}
	switch {
	case len(b.Tools) == 0:
		return none, xerrors.New("no tools")
	case b.Tools[0].GetOS() != "linux" || b.Tools[0].GetArchitecture() != "x64" || b.Tools[0].GetFilename() == "":
		return none, xerrors.Errorf("no tools for %s and %s", b.OSType, b.OSArch)
	case b.RepoURL == "" || b.CallbackURL == "" || b.MetadataURL == "":
		return none, xerrors.New("no URLs")
	case b.Flavor == unknownFlavor:
		return none, garmerrors.NewNotFoundError("flavor %s not found", b.Flavor)
	case c.config.Fault == externaltest.Panics:
		panic("assignment to entry in nil map")
	case c.config.Fault == externaltest.Blabs:
		return none, xerrors.Errorf("cannot log in with %s, variables %s and token %s", c.config.Password, os.Environ(),
			b.InstanceToken)
	case c.config.Fault == externaltest.Hangs || c.config.Fault == externaltest.Escapes:
		linger(c.config.Root, c.config.Fault == externaltest.Escapes)
	}
	if c.config.Fault != externaltest.IgnoresScript {
		if _, err := cloudconfig.GetRunnerInstallScript(b, b.Tools[0], b.Name); err != nil {
			return none, xerrors.Errorf("render the script: %w", err)
		}
	}
	m := machine{Pool: b.PoolID, ProviderInstance: params.ProviderInstance{
		ProviderID: "ref-" + rand.Text(), Name: b.Name, OSType: b.OSType, OSArch: b.OSArch, OSName: "ubuntu",
		Status:    params.InstanceStopped,
		Addresses: []params.Address{{Address: "192.0.2.1", Type: params.PrivateAddress}},
	}}
	file := b.Name
	if c.config.Fault == externaltest.DuplicateIsMade {
		file = m.ProviderID
	}
	if c.config.Fault == externaltest.Renames {
		m.Name = "runner-1"
	}
	err := c.put(file, m, os.Link) // which fails if it exists
	if errors.Is(err, fs.ErrExist) && c.config.Fault != externaltest.DuplicateIs1 {
		return none, garmerrors.NewDuplicateUserError("instance already exists")
	}
	if err != nil {
		return none, err
	}
	time.Sleep(time.Duration(c.config.CreateMS) * time.Millisecond)
	m.Status = params.InstanceRunning
	switch c.config.Fault {
	case externaltest.PendingStatus:
		m.Status = params.InstancePendingCreate
	case externaltest.ErrorStatus:
		m.Status, m.ProviderFault = params.InstanceError, []byte("no capacity in zone 1")
	default:
	}
	if c.config.Boots {
		if err := c.boot(b); err != nil {
			return none, err
		}
	}
	return m.ProviderInstance, c.put(file, m, os.Rename)
}

// DeleteInstance deletes an instance by id or name.
func (c *cloud) DeleteInstance(_ context.Context, instance string) error {
	m, file, err := c.find(instance)
	if errors.Is(err, garmerrors.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if busy, err := c.busy(m.Name); busy || err != nil {
		return errors.Join(err, xerrors.New("instance is busy running a \"create\" operation"))
	}
	if err := c.halt(m.Name); c.config.Boots && err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return xerrors.Errorf("delete: %w", err)
	}
	return nil
}

// busy counts the deletes of an instance, and says whether this one comes too early.
func (c *cloud) busy(name string) (bool, error) {
	if c.config.Busy == 0 {
		return false, nil
	}
	f, err := os.OpenFile(filepath.Join(c.config.Root, "deletes-"+name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, xerrors.Errorf("count deletes: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		return false, xerrors.Errorf("count deletes: %w", err)
	}
	info, err := f.Stat()
	return err == nil && info.Size() <= int64(c.config.Busy), err
}

// GetInstance looks an instance up by id or name.
func (c *cloud) GetInstance(_ context.Context, instance string) (params.ProviderInstance, error) {
	m, _, err := c.find(instance)
	return m.ProviderInstance, err
}

// ListInstances lists the pool.
func (c *cloud) ListInstances(_ context.Context, pool string) ([]params.ProviderInstance, error) {
	all, _, err := c.all()
	list := []params.ProviderInstance{}
	for _, m := range all {
		if c.config.Fault == externaltest.Chatty {
			m.OSVersion = strings.Repeat("version ", 500_000)
		}
		if m.Pool == pool {
			list = append(list, m.ProviderInstance)
		}
	}
	return list, err
}

// RemoveAllInstances removes what the controller has.
func (c *cloud) RemoveAllInstances(context.Context) error { return os.RemoveAll(c.dir()) }

// Stop stops an instance; one that is stopped can't be.
func (c *cloud) Stop(_ context.Context, instance string, _ bool) error {
	return c.turn(instance, params.InstanceRunning, params.InstanceStopped)
}

// Start starts an instance; one that runs can't be.
func (c *cloud) Start(_ context.Context, instance string) error {
	return c.turn(instance, params.InstanceStopped, params.InstanceRunning)
}

func (c *cloud) turn(instance string, from, to params.InstanceStatus) error {
	m, file, err := c.find(instance)
	if err != nil {
		return err
	}
	if m.Status != from {
		return xerrors.Errorf("the instance is %s", m.Status)
	}
	m.Status = to
	return c.put(filepath.Base(file), m, os.Rename)
}

// GetVersion is the version of this executable.
func (*cloud) GetVersion(context.Context) string { return "v1.2.3" }

// GetSupportedInterfaceVersions lists both.
func (*cloud) GetSupportedInterfaceVersions(context.Context) []string {
	return []string{common.Version010, common.Version011}
}

// ValidatePoolInfo takes everything.
func (*cloud) ValidatePoolInfo(context.Context, string, string, string, string) error { return nil }

// GetConfigJSONSchema wants a root.
func (c *cloud) GetConfigJSONSchema(context.Context) (string, error) {
	return `{"type": "object", "required": ["root"], "properties": {"create_ms": {"type": "integer", "minimum": 0}}}`, nil
}

// GetExtraSpecsJSONSchema names a schema of schemas that is nowhere, as real ones do.
func (c *cloud) GetExtraSpecsJSONSchema(context.Context) (string, error) {
	if c.config.Fault == externaltest.NoSchema {
		return "", xerrors.New("not implemented")
	}
	return `{"$schema": "http://cloud.invalid/schemas/extra_specs#", "type": "object", "additionalProperties": false,
		"properties": {"runner_install_template": {"type": "string"}, "disk_gb": {"type": "integer", "minimum": 1}}}`, nil
}

func (c *cloud) dir() string { return filepath.Join(c.config.Root, c.controller) }

// put writes a file aside and moves it into place.
func (c *cloud) put(file string, m machine, move func(from, to string) error) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return xerrors.Errorf("encode: %w", err)
	}
	if err := os.MkdirAll(c.dir(), 0o700); err != nil {
		return xerrors.Errorf("make directory: %w", err)
	}
	aside := filepath.Join(c.config.Root, "aside-"+rand.Text())
	defer os.Remove(aside) // moved, mostly
	if err := os.WriteFile(aside, raw, 0o600); err != nil {
		return xerrors.Errorf("write: %w", err)
	}
	if err := move(aside, filepath.Join(c.dir(), file)); err != nil {
		return xerrors.Errorf("put into place: %w", err)
	}
	return nil
}

func (c *cloud) all() ([]machine, []string, error) {
	files, err := filepath.Glob(filepath.Join(c.dir(), "*"))
	var all []machine
	var paths []string
	for _, f := range files {
		raw, readErr := os.ReadFile(f)
		if errors.Is(readErr, fs.ErrNotExist) {
			continue
		}
		var m machine
		if readErr == nil {
			readErr = json.Unmarshal(raw, &m)
		}
		all, paths, err = append(all, m), append(paths, f), errors.Join(err, readErr)
	}
	return all, paths, err
}

func (c *cloud) find(instance string) (machine, string, error) {
	all, paths, err := c.all()
	if err != nil {
		return machine{}, "", err
	}
	for i, m := range all {
		if m.ProviderID == instance || m.Name == instance && c.config.Fault != externaltest.NamesAreLost {
			return m, paths[i], nil
		}
	}
	if c.config.Fault == externaltest.MissingIs1 {
		return machine{}, "", xerrors.Errorf("there is no %s", instance)
	}
	return machine{}, "", fmt.Errorf("find %s: %w", instance, garmerrors.ErrNotFound)
}
