terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

variable "agent_id" { type = string }

resource "coder_env" "editor" {
  agent_id = var.agent_id
  name     = "EDITOR"
  value    = "vim"
}
