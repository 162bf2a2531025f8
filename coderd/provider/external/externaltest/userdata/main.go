// Command userdata prints the user data that garm-provider-common makes for the runner of the workspace that it is run in, as a
// provider of GARM would do for an instance: for tests of workspaces that are given none.
//
//	userdata SERVER TOKENFILE PAGE DOWNLOAD jit|token
//
// TOKENFILE has the instance token. PAGE is where the runner registers, and DOWNLOAD is of the runner.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/cloudbase/garm-provider-common/cloudconfig"
	"github.com/cloudbase/garm-provider-common/params"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func main() {
	data, err := userData(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "userdata:", err)
		os.Exit(1)
	}
	fmt.Print(data)
}

func userData(ctx context.Context) (string, error) {
	if len(os.Args) != 6 {
		return "", xerrors.New("five arguments are wanted: SERVER TOKENFILE PAGE DOWNLOAD jit|token")
	}
	page, download, by := os.Args[3], os.Args[4], os.Args[5]
	raw, err := os.ReadFile(os.Args[2])
	if err != nil {
		return "", xerrors.Errorf("read token: %w", err)
	}
	token, url := strings.TrimSpace(string(raw)), os.Args[1]+"/api/v1/instance"
	var runner sdk.RunnerMetadata
	var workspace sdk.InstanceMetadata
	if err := read(ctx, url+"/metadata/runner-metadata", token, &runner); err != nil {
		return "", err
	}
	if err := read(ctx, url+"/metadata", token, &workspace); err != nil {
		return "", err
	}
	osName, arch, file := "linux", "x64", path.Base(download)
	tools := params.RunnerApplicationDownload{OS: &osName, Architecture: &arch, Filename: &file, DownloadURL: &download}
	return cloudconfig.GetCloudConfig(params.BootstrapInstance{
		Name: runner.Name, Tools: []params.RunnerApplicationDownload{tools}, RepoURL: page, CallbackURL: url + "/status",
		MetadataURL: url + "/metadata", InstanceToken: token, CACertBundle: []byte(workspace.ForgeCABundle),
		OSType: params.Linux, OSArch: params.Amd64, Labels: runner.Labels, GitHubRunnerGroup: runner.Group,
		JitConfigEnabled: by == "jit", UserDataOptions: params.UserDataOptions{DisableUpdatesOnBoot: true},
	}, tools, runner.Name)
}

func read(ctx context.Context, url, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return xerrors.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return xerrors.Errorf("read metadata: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return xerrors.Errorf("read %s: status %d", url, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
