# In the shape of the usual template for Docker. The container is a file in a directory, which the test runs as an engine would.
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

variable "engine" {
  type    = string
  default = "/tmp"
}

locals {
  username = data.coder_workspace_owner.me.name
}

provider "coder" {}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

resource "coder_agent" "main" {
  arch           = data.coder_provisioner.me.arch
  os             = "linux"
  startup_script = <<-EOT
    set -e

    # Prepare the home when it starts for the first time.
    if [ ! -f ~/.init_done ]; then
      echo "prepared with $${SHELL:-sh}" > ~/.init_done
    fi
  EOT

  env = {
    GIT_AUTHOR_NAME = coalesce(data.coder_workspace_owner.me.full_name, data.coder_workspace_owner.me.name)
  }

  metadata {
    display_name = "CPU Usage"
    key          = "0_cpu_usage"
    script       = "coder stat cpu"
    interval     = 10
    timeout      = 1
  }
}

resource "coder_app" "code-server" {
  agent_id     = coder_agent.main.id
  slug         = "code-server"
  display_name = "code-server"
  url          = "http://localhost:13337/?folder=/home/${local.username}"
  share        = "owner"
}

resource "terraform_data" "home_volume" {
  input = "coder-${data.coder_workspace.me.id}-home"
}

resource "terraform_data" "workspace" {
  count = data.coder_workspace.me.start_count
  input = {
    file = "${var.engine}/coder-${local.username}-${lower(data.coder_workspace.me.name)}.json"
  }
  # A container is replaced where any of this changes.
  triggers_replace = {
    entrypoint = ["sh", "-c", replace(coder_agent.main.init_script, "/localhost|127\\.0\\.0\\.1/", "127.0.0.1")]
    env        = ["CODER_AGENT_TOKEN=${coder_agent.main.token}"]
    volume     = terraform_data.home_volume.output
    labels     = { "coder.owner_id" = data.coder_workspace_owner.me.id, "coder.workspace_name" = data.coder_workspace.me.name }
  }
  provisioner "local-exec" {
    command     = "printf %s \"$CONTAINER\" > \"$FILE.new\" && chmod 0644 \"$FILE.new\" && mv \"$FILE.new\" \"$FILE\""
    environment = { CONTAINER = jsonencode(self.triggers_replace), FILE = self.output.file }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "rm -f '${self.output.file}'"
  }
}

resource "coder_metadata" "container_info" {
  count       = data.coder_workspace.me.start_count
  resource_id = terraform_data.workspace[0].id
  item {
    key   = "volume"
    value = terraform_data.home_volume.output
  }
}
