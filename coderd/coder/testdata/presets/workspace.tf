data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  env  = { GIT_AUTHOR_NAME = data.coder_workspace_owner.me.name }
}

resource "coder_app" "preview" {
  agent_id = coder_agent.main.id
  slug     = "preview"
  url      = "http://127.0.0.1:3000"
  share    = "public"
}

resource "coder_script" "nightly" {
  agent_id     = coder_agent.main.id
  display_name = "Nightly"
  cron         = "0 0 3 * * *"
  script       = "true"
}

module "editor" {
  count    = 0
  source   = "./editor"
  agent_id = coder_agent.main.id
}

resource "terraform_data" "machine" {
  triggers_replace = {
    prebuilt = data.coder_workspace.me.is_prebuild
    size     = data.coder_parameter.cpus.value
    region   = data.coder_parameter.region.value
    features = data.coder_parameter.features.value
    key      = data.coder_parameter.key.value
    boot     = "sudo -u '${data.coder_workspace_owner.me.name}' sh -c '${coder_agent.main.init_script}'"
  }
  lifecycle { # as who has prebuilds does: what is claimed is not made again for its owner
    ignore_changes = [triggers_replace]
  }
}

output "machine" {
  value     = { REGION = data.coder_parameter.region.value, SIZE = tostring(data.coder_parameter.cpus.value), OWNER = data.coder_workspace_owner.me.name }
  sensitive = true
}
