package gitea

import (
	"encoding/json"
	"time"
)

// What Gitea sends, as far as it is used. Its own client has one context for all calls and none for tests of webhooks.

type wireJob struct {
	ID          int64     `json:"id"`
	RunID       int64     `json:"run_id"`
	RunAttempt  int64     `json:"run_attempt"`
	URL         string    `json:"url"` // of the API: …/repos/owner/repository/actions/jobs/31
	HTMLURL     string    `json:"html_url"`
	Name        string    `json:"name"`
	Labels      []string  `json:"labels"`
	Status      string    `json:"status"`
	Conclusion  string    `json:"conclusion"`
	RunnerID    int64     `json:"runner_id"`
	RunnerName  string    `json:"runner_name"`
	CreatedAt   time.Time `json:"created_at"`
	StartedAt   time.Time `json:"started_at"`
	CompletedAt time.Time `json:"completed_at"`
}

type wireJobs struct {
	Jobs []*wireJob `json:"jobs"`
}

type wireRunner struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Busy   bool   `json:"busy"`
	Labels []struct {
		Name string `json:"name"`
	} `json:"labels"`
}

type wireRunners struct {
	Runners    []wireRunner `json:"runners"`
	TotalCount int          `json:"total_count"`
}

type wireHook struct {
	ID     int64             `json:"id,omitempty"`
	Type   string            `json:"type,omitempty"`
	Config map[string]string `json:"config"`
	Events []string          `json:"events"`
	Active bool              `json:"active"`
	System bool              `json:"is_system_webhook,omitempty"` // of an instance: of all repositories, not copied into new ones
}

// message is how Gitea says what is wrong.
func message(body []byte) string {
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) == nil && said.Message != "" {
		return said.Message
	}
	return ""
}
