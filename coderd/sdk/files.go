package sdk

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"golang.org/x/xerrors"
)

// File is a file, a directory or something else in a workspace.
type File struct {
	Name       string    `json:"name"`
	Type       string    `json:"type" enum:"file,directory,symlink,other"`
	Size       int64     `json:"size" doc:"Bytes of a file"`
	Mode       string    `json:"mode" doc:"Permissions, octal, such as 0644"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" doc:"Of a symbolic link, as it is written there"`
}

// FileList is one page of what is in a directory, by name.
type FileList struct {
	Path  string `json:"path" doc:"Of the directory, absolute"`
	Files []File `json:"files"`
	Next  string `json:"next,omitempty" doc:"Give it as after to get the next page; empty on the last"`
}

// FileChange is one line of a watch.
type FileChange struct {
	Path      string `json:"path,omitempty" doc:"In the first line, from which on nothing is missed: the directory, absolute"`
	Name      string `json:"name,omitempty" doc:"Of what has changed in it"`
	Operation string `json:"operation,omitempty" enum:"create,write,remove,rename,chmod,lost,end" doc:"lost: changes were missed, list the directory again; end: the directory itself is gone"`
}

// MakeDirectory says what directory to make.
type MakeDirectory struct {
	Path    string `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or relative to the directory of the workspace"`
	Mode    string `json:"mode,omitempty" pattern:"^0?[0-7]{3}$" doc:"Permissions, octal; what the umask leaves of 0777 where left out"`
	Parents bool   `json:"parents,omitempty" doc:"Whether to make those above it too; one that is there already is no error then"`
}

// MoveFile says what to move or copy, and where to. Paths are absolute, or relative to the directory of the workspace.
type MoveFile struct {
	From      string `json:"from" minLength:"1" maxLength:"4096"`
	To        string `json:"to" minLength:"1" maxLength:"4096" doc:"Its new path, not the directory to put it into"`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Whether to replace what is there; 409 otherwise"`
}

// FileWrite says how a file is written.
type FileWrite struct {
	Mode    string // permissions, octal; those of the file that is replaced where empty
	Parents bool   // make the directories above it
	Sync    bool   // return only when it is on disk
	Size    int64  // of the content; -1 where it is not known
}

// Files lists a directory by name, at most limit entries from after on. Paths are absolute, or relative to the directory of the
// workspace, here and below.
func (c *Client) Files(ctx context.Context, ref, path, after string, limit int) (FileList, error) {
	return ask[FileList](ctx, c, read("workspaces", ref, "files").where(query{"path": path, "after": after, "limit": limit}))
}

// File describes a file or a directory; with follow what a symbolic link leads to.
func (c *Client) File(ctx context.Context, ref, path string, follow bool) (File, error) {
	return ask[File](ctx, c, read("workspaces", ref, "files", "stat").where(query{"path": path, "follow": follow}))
}

// ReadFile opens a file; size is -1 where it is not known. The caller closes it. A Read of what was cut fails.
func (c *Client) ReadFile(ctx context.Context, ref, path string) (content io.ReadCloser, size int64, err error) {
	resp, err := c.send(ctx, read("workspaces", ref, "files", "content").where(query{"path": path}))
	if err != nil {
		return nil, 0, err
	}
	return resp.Body, resp.ContentLength, nil
}

// WriteFile replaces the content of a file in one step, or makes it. Where it fails nothing has changed, unless only the answer
// was lost.
func (c *Client) WriteFile(ctx context.Context, ref, path string, content io.Reader, how FileWrite) (File, error) {
	return ask[File](ctx, c, put("workspaces", ref, "files", "content").where(query{
		"path": path, "mode": how.Mode, "parents": how.Parents, "sync": how.Sync,
	}).streaming(content, how.Size))
}

// ReadTree opens a directory, with all that is in it, as a tar archive. The caller closes it.
func (c *Client) ReadTree(ctx context.Context, ref, path string) (archive io.ReadCloser, err error) {
	resp, err := c.send(ctx, read("workspaces", ref, "files", "tree").where(query{"path": path}))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// WriteTree writes the entries of a tar archive into a directory, which is made with parents.
func (c *Client) WriteTree(ctx context.Context, ref, path string, archive io.Reader, parents bool) error {
	return c.do(ctx, put("workspaces", ref, "files", "tree").where(query{"path": path, "parents": parents}).streaming(archive, -1))
}

// WatchFiles hands each change in a directory to each, from the first line on, which names the directory. It returns nil when the
// directory is gone. An error of each ends it.
func (c *Client) WatchFiles(ctx context.Context, ref, path string, each func(FileChange) error) error {
	resp, err := c.send(ctx, read("workspaces", ref, "files", "watch").where(query{"path": path}))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := json.NewDecoder(resp.Body); ; {
		var change FileChange
		if err := lines.Decode(&change); err != nil {
			return xerrors.Errorf("watch directory: %w", err)
		}
		if err := each(change); err != nil || change.Operation == "end" {
			return err
		}
	}
}

// MakeDirectory makes one.
func (c *Client) MakeDirectory(ctx context.Context, ref string, what MakeDirectory) (File, error) {
	return ask[File](ctx, c, post("workspaces", ref, "files", "directory").with(what))
}

// MoveFile moves or renames a file or a directory.
func (c *Client) MoveFile(ctx context.Context, ref string, what MoveFile) (File, error) {
	return ask[File](ctx, c, post("workspaces", ref, "files", "move").with(what))
}

// CopyFile copies a file or a directory within the workspace.
func (c *Client) CopyFile(ctx context.Context, ref string, what MoveFile) (File, error) {
	return ask[File](ctx, c, post("workspaces", ref, "files", "copy").with(what))
}

// RemoveFile removes a file or an empty directory, and with recursive one with all that is in it.
func (c *Client) RemoveFile(ctx context.Context, ref, path string, recursive bool) error {
	return c.do(ctx, remove("workspaces", ref, "files").where(query{"path": path, "recursive": recursive}))
}
