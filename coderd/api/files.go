package api

import (
	"cmp"
	"context"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

type (
	// FilePath names a file; huma fills what is embedded only where it is exported.
	FilePath struct {
		WorkspaceRef
		Path string `query:"path" maxLength:"4096" doc:"Absolute, or relative to the directory of the workspace, which it is where left out"`
	}
	listFilesInput struct {
		FilePath
		After string `query:"after" maxLength:"4096" doc:"The next of the page before"`
		Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"Entries of a page; 1000 where left out"`
	}
	statFileInput struct {
		FilePath
		Follow bool `query:"follow" doc:"Whether a symbolic link stands for what it leads to"`
	}
	readFileInput struct {
		FilePath
		Range       string `header:"Range" doc:"One range of bytes"`
		IfRange     string `header:"If-Range" doc:"The ETag of an earlier answer: all is sent where it is another content by now"`
		IfNoneMatch string `header:"If-None-Match"`
	}
	writeFileInput struct {
		FilePath
		Mode    string `query:"mode" pattern:"^0?[0-7]{3}$" doc:"Permissions, octal; where left out those of the file that is replaced, else what the umask leaves of 0666"`
		Parents bool   `query:"parents" doc:"Whether to make the directories above it"`
		Sync    bool   `query:"sync" doc:"Whether to answer only when it is on disk"`
	}
	writeTreeInput struct {
		FilePath
		Parents bool `query:"parents" doc:"Whether to make the directory, and those above it"`
	}
	removeFileInput struct {
		FilePath
		Recursive bool `query:"recursive" doc:"Whether to remove a directory with all that is in it"`
	}
	makeDirectoryInput struct {
		WorkspaceRef
		Body sdk.MakeDirectory
	}
	moveFileInput struct {
		WorkspaceRef
		Body sdk.MoveFile
	}
)

func (s *server) registerFiles() {
	const files = "/workspaces/{workspace}/files"
	op := func(id, method, path, summary, description string) operation {
		return operation{
			id: id, method: method, path: files + path, action: auth.ActUseWorkspace, tag: "files", summary: summary,
			description: description, endless: true, // a disk may take its time
		}
	}
	register(s, op("list-files", http.MethodGet, "", "List a directory of a claimed workspace",
		"By name, in pages. With the rights of the agent, as all of files: a path may lead anywhere that a process could. Only the user "+
			"of the claim may. 403, 404, 409 and 507 are what the system says of the path: permission, not found, exists or of another "+
			"kind, and no space. 501 if the workspace has no agent, or its template turns the data plane off."), s.listFiles)
	register(s, op("show-file", http.MethodGet, "/stat", "Show a file or a directory", ""), s.statFile)
	register(s, op("read-file", http.MethodGet, "/content", "Read a file",
		"The bytes, or a range of them. With an ETag, so that a download that was cut can go on."), s.readFile)
	write := op("write-file", http.MethodPut, "/content", "Write a file",
		"The body is its content, of any size. A reader sees the old content or the new one, and an upload that is cut changes nothing.")
	write.upload = "application/octet-stream"
	register(s, write, s.writeFile)
	register(s, op("read-files", http.MethodGet, "/tree", "Read a directory with all that is in it, as tar",
		"Files, directories and symbolic links. An answer that is cut off was not all: a record `PREWARM.error` at its end says why."),
		s.readTree)
	tree := op("write-files", http.MethodPut, "/tree", "Write a tar archive into a directory",
		"Over what is there, without owners. 422 for an entry that leaves the directory, by its name or through a link. What came "+
			"before an error is written.")
	tree.upload, tree.status = "application/x-tar", http.StatusNoContent
	register(s, tree, s.writeTree)
	register(s, op("watch-files", http.MethodGet, "/watch", "Watch a directory for changes",
		"The answer is NDJSON. The first line has the path: what changes from then on has a line each, with `name` and `operation`. "+
			"`lost` says that changes were missed, and `end` that the directory is gone. What is below its directories is not watched."),
		s.watchFiles)
	remove := op("remove-file", http.MethodDelete, "", "Remove a file or a directory", "A symbolic link is removed, and not what it leads to.")
	remove.status = http.StatusNoContent
	register(s, remove, s.removeFile)
	register(s, op("make-directory", http.MethodPost, "/directory", "Make a directory", ""), s.makeDirectory)
	register(s, op("move-file", http.MethodPost, "/move", "Move or rename a file or a directory", ""), s.moveFile)
	register(s, op("copy-file", http.MethodPost, "/copy", "Copy a file or a directory within a workspace",
		"With modes and times. Over a directory that is there only with `overwrite`, and what else is in it stays."), s.copyFile)
}

// query is that of the agent, whose parameters have the same names.
func (in FilePath) query(more url.Values) url.Values {
	q := url.Values{"path": {in.Path}}
	maps.Copy(q, more)
	return q
}

func boolOf(b bool) []string { return []string{strconv.FormatBool(b)} }

func (s *server) listFiles(ctx context.Context, who auth.Identity, in *listFilesInput) (*body[sdk.FileList], error) {
	query := in.query(url.Values{"after": {in.After}, "limit": {strconv.Itoa(in.Limit)}})
	return askInside[sdk.FileList](ctx, s, who, in.Ref, get("/files", query))
}

func (s *server) statFile(ctx context.Context, who auth.Identity, in *statFileInput) (*body[sdk.File], error) {
	return askInside[sdk.File](ctx, s, who, in.Ref, get("/files/stat", in.query(url.Values{"follow": boolOf(in.Follow)})))
}

// recorded is a session in the audit log, which says neither what file it was nor what is in it.
func (s *server) recorded(e entrance, direction string, stream *huma.StreamResponse) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		end := s.begin(e, "files", map[string]any{"direction": direction})
		defer end(nil)
		stream.Body(hc)
	}}
}

// download hands on a file or a tree. A browser shows none of it as a page of this server.
func (s *server) download(
	ctx context.Context, who auth.Identity, in FilePath, what, as, suffix string, header http.Header,
) (*huma.StreamResponse, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	resp, err := s.call(ctx, e, request{method: http.MethodGet, path: what, query: in.query(nil), header: header})
	if err != nil {
		return nil, err
	}
	name := path.Base(path.Clean("/"+in.Path)) + suffix
	answer := map[string]string{
		"Content-Type":        as,
		"Content-Disposition": cmp.Or(mime.FormatMediaType("attachment", map[string]string{"filename": name}), "attachment"),
	}
	for _, name := range []string{"Accept-Ranges", "Content-Range", "Etag", "Last-Modified"} {
		if value := resp.Header.Get(name); value != "" {
			answer[name] = value
		}
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		if resp.ContentLength >= 0 {
			answer["Content-Length"] = strconv.FormatInt(resp.ContentLength, 10)
		}
	case http.StatusNotModified:
	default:
		_ = resp.Body.Close()
		return nil, huma.Error502BadGateway("the agent of workspace " + e.Name + " gave no answer that can be read")
	}
	return s.recorded(e, "download", s.passAs(ctx, resp, resp.StatusCode, answer)), nil
}

func (s *server) readFile(ctx context.Context, who auth.Identity, in *readFileInput) (*huma.StreamResponse, error) {
	header := http.Header{}
	for name, value := range map[string]string{"Range": in.Range, "If-Range": in.IfRange, "If-None-Match": in.IfNoneMatch} {
		if value != "" && !strings.Contains(in.Range, ",") { // several ranges would want another form, and may be answered with all
			header.Set(name, value)
		}
	}
	return s.download(ctx, who, in.FilePath, "/files/content", "application/octet-stream", "", header)
}

func (s *server) readTree(ctx context.Context, who auth.Identity, in *FilePath) (*huma.StreamResponse, error) {
	return s.download(ctx, who, *in, "/files/tree", "application/x-tar", ".tar", nil)
}

func (s *server) watchFiles(ctx context.Context, who auth.Identity, in *FilePath) (*huma.StreamResponse, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	resp, err := s.call(ctx, e, get("/files/watch", in.query(nil))) //nolint:bodyclose // pass closes it
	if err != nil {
		return nil, err
	}
	return s.pass(ctx, resp), nil
}

func (s *server) upload(ctx context.Context, who auth.Identity, in FilePath, to string, query url.Values) (*huma.StreamResponse, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	return s.recorded(e, "upload", s.send(ctx, e, request{method: http.MethodPut, path: to, query: query})), nil
}

func (s *server) writeFile(ctx context.Context, who auth.Identity, in *writeFileInput) (*huma.StreamResponse, error) {
	return s.upload(ctx, who, in.FilePath, "/files/content",
		in.query(url.Values{"mode": {in.Mode}, "parents": boolOf(in.Parents), "sync": boolOf(in.Sync)}))
}

func (s *server) writeTree(ctx context.Context, who auth.Identity, in *writeTreeInput) (*huma.StreamResponse, error) {
	return s.upload(ctx, who, in.FilePath, "/files/tree", in.query(url.Values{"parents": boolOf(in.Parents)}))
}

func (s *server) removeFile(ctx context.Context, who auth.Identity, in *removeFileInput) (*none, error) {
	query := in.query(url.Values{"recursive": boolOf(in.Recursive)})
	_, err := askInside[none](ctx, s, who, in.Ref, request{method: http.MethodDelete, path: "/files", query: query})
	return nil, err
}

func (s *server) makeDirectory(ctx context.Context, who auth.Identity, in *makeDirectoryInput) (*body[sdk.File], error) {
	return askInside[sdk.File](ctx, s, who, in.Ref, post("/files/directory", in.Body))
}

func (s *server) moveFile(ctx context.Context, who auth.Identity, in *moveFileInput) (*body[sdk.File], error) {
	return askInside[sdk.File](ctx, s, who, in.Ref, post("/files/move", in.Body))
}

func (s *server) copyFile(ctx context.Context, who auth.Identity, in *moveFileInput) (*body[sdk.File], error) {
	return askInside[sdk.File](ctx, s, who, in.Ref, post("/files/copy", in.Body))
}
