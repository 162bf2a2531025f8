package sdk

import (
	"time"
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
