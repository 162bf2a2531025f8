package sdk

import (
	"bytes"
	"context"
	"time"
)

// Module is the directory of a module of Terraform that was uploaded as an archive.
type Module struct {
	Digest    string    `json:"digest" doc:"What the module of a spec names: sha256: and the SHA-256 of the archive"`
	Size      int32     `json:"size" doc:"Bytes of the archive"`
	CreatedAt time.Time `json:"created_at" doc:"When it was uploaded first"`
}

// Module looks an uploaded directory up by its digest.
func (c *Client) Module(ctx context.Context, digest string) (Module, error) {
	return get[Module](ctx, c, "modules", digest)
}

// UploadModule stores an archive under its digest. One that is there already is no error.
func (c *Client) UploadModule(ctx context.Context, digest string, archive []byte) (Module, error) {
	return ask[Module](ctx, c, put("modules", digest).streaming(bytes.NewReader(archive), int64(len(archive))))
}
