# In the shape of the usual template for Kubernetes. The deployment is data, since there is no cluster.
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

variable "namespace" {
  type    = string
  default = "workspaces"
}

data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "CPU"
  description  = "The number of CPU cores"
  default      = "2"
  mutable      = true
  option {
    name  = "2 Cores"
    value = "2"
  }
  option {
    name  = "4 Cores"
    value = "4"
  }
}

data "coder_parameter" "home_disk_size" {
  name    = "home_disk_size"
  type    = "number"
  default = 10
  validation {
    min = 1
    max = 99
  }
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

resource "coder_agent" "main" {
  os             = "linux"
  arch           = "amd64"
  startup_script = "echo 'home of ${data.coder_parameter.home_disk_size.value} GiB'"
}

resource "coder_script" "tools" {
  agent_id     = coder_agent.main.id
  display_name = "Tools"
  run_on_start = true
  script       = file("${path.module}/tools.sh")
}

resource "coder_env" "editor" {
  agent_id = coder_agent.main.id
  name     = "EDITOR"
  value    = "vim"
}

resource "terraform_data" "home" {
  input = {
    name    = "coder-${data.coder_workspace.me.id}-home"
    storage = "${data.coder_parameter.home_disk_size.value}Gi"
  }
}

resource "terraform_data" "deployment" {
  count = data.coder_workspace.me.start_count
  input = { # what a cluster changes in place
    labels = {
      "com.coder.workspace.name" = data.coder_workspace.me.name
      "com.coder.user.username"  = data.coder_workspace_owner.me.name
    }
  }
  triggers_replace = {
    name      = "coder-${data.coder_workspace.me.id}"
    namespace = var.namespace
    command = ["sh", "-c", coder_agent.main.init_script]
    env     = [{ name = "CODER_AGENT_TOKEN", value = coder_agent.main.token }]
    cpu     = data.coder_parameter.cpu.value
    claim   = terraform_data.home.output.name
  }
}

output "deployment" {
  value     = { CPU = terraform_data.deployment[0].triggers_replace.cpu, CLAIM = terraform_data.home.output.name, USER = terraform_data.deployment[0].output.labels["com.coder.user.username"] }
  sensitive = true
}
