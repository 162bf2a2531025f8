package sdk

// WorkspaceList is one page of workspaces, newest first.
type WorkspaceList struct {
	Workspaces []Workspace `json:"workspaces"`
	Next       string      `json:"next,omitempty" doc:"Give it as after to get the next page; empty on the last"`
}

// AuditList is one page of the audit log, newest first.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    int64        `json:"next,omitempty" doc:"Give it as before to get the next page; absent on the last"`
}

// ClaimList is one page of claims.
type ClaimList struct {
	Claims []ClaimRecord `json:"claims"`
	Next   string        `json:"next,omitempty" doc:"Give it as after to get the next page; empty on the last"`
}

// TemplateVersionList is one page of the versions of a template, the newest first.
type TemplateVersionList struct {
	Versions []TemplateVersion `json:"versions"`
	Next     int               `json:"next,omitempty" doc:"Give it as before to get the next page; absent on the last"`
}
