/**
 * All error codes. The families never overlap: `wire` (communication with a plugin failed), `plugin` (the plugin itself
 * reported a failure), `refusal` (the gateway rejected the request) and `fault` (the gateway itself failed). `http` is
 * the status of the response with this error. docs/errors.md is generated from this list.
 */
import { type ErrorSpec, faultSpec, pluginSpec, refusalSpec, wireSpec } from "./error-spec.ts";

export const ERROR_CODES = {
  // Communication with a plugin.
  launch_failed: wireSpec(
    502,
    false,
    "The plugin's process could not be started.",
    "Read the diagnosis in the message, which names the file and the fix.",
  ),
  handshake_failed: wireSpec(
    502,
    false,
    "The plugin's handshake is not valid.",
    "Compare the plugin's first frame with spec/protocol.md. The usual cause is other output on stdout.",
  ),
  protocol_version_mismatch: wireSpec(
    502,
    false,
    "The plugin uses an unsupported protocol version.",
    "Install a build of the plugin for the protocol named in its manifest.",
  ),
  timeout: wireSpec(
    504,
    true,
    "The deadline passed before the plugin answered.",
    "Raise timeout_ms on the call or in the binding's policy, or make the plugin faster.",
  ),
  crashed: wireSpec(
    502,
    true,
    "The plugin's process exited before it answered.",
    "Read the plugin's stderr with `backplane invocation show ID`.",
  ),
  malformed_response: wireSpec(
    502,
    false,
    "The plugin's answer violates the protocol or its own output schema.",
    "Correct the violation named in the message, then run the plugin's conformance test.",
  ),
  tool_not_exposed: wireSpec(
    502,
    false,
    "The plugin does not offer this tool.",
    "Check the tool's name against exposed_tools in the plugin's handshake.",
  ),
  capability_not_declared: wireSpec(
    502,
    false,
    "The binding allows capabilities, but the plugin declares none.",
    "Declare the needed capabilities in the plugin's handshake manifest, or remove them from policy.capabilities of the binding.",
  ),
  capability_not_allowed: wireSpec(
    502,
    false,
    "The plugin requested a capability that the binding does not allow.",
    "If you trust the plugin with the capability, add it to policy.capabilities of the binding.",
  ),
  frame_invalid: wireSpec(
    502,
    false,
    "A frame could not be decoded.",
    "Send one complete JSON object per frame, as described in spec/protocol.md.",
  ),
  frame_too_large: wireSpec(
    502,
    false,
    "A frame is larger than the limit.",
    "Pass large data as an artifact in the scratch folder, or raise limits.frame_bytes.",
  ),
  artifact_refused: wireSpec(
    502,
    false,
    "The plugin's answer refers to a file that cannot be stored as an artifact.",
    "Write a regular file into scratch_dir and refer to it by its relative path; details.reason names the violated rule.",
  ),
  backpressure: wireSpec(
    503,
    true,
    "The plugin does not read its input fast enough.",
    "Try again later. If the error persists, change the plugin so that it reads its stdin continuously.",
  ),
  slow_start: wireSpec(
    503,
    true,
    "The plugin did not start in time.",
    "Call again. If the machine is not busy, raise the limits in [timeouts] or make the plugin start faster.",
  ),
  crash_loop: wireSpec(
    503,
    true,
    "The plugin crashed repeatedly at launch and is not started for now.",
    "Correct the plugin or its configuration. The gateway tries again at the time in details.retry_at.",
  ),

  // Failures that the plugin itself reported.
  plugin_failed: pluginSpec(
    200,
    false,
    "The plugin reported a failure.",
    "Read the message, which comes from the plugin.",
  ),
  plugin_protocol_error: pluginSpec(
    502,
    false,
    "The plugin answered ok:false.",
    "Read the message, which comes from the plugin; ok:false means that the plugin could not read the request.",
  ),
  plugin_retryable: pluginSpec(200, true, "The plugin reported a temporary failure.", "Invoke again later."),

  // Invocations that end without an answer.
  cancelled: refusalSpec(409, "The invocation was cancelled.", "Invoke again if you need the result."),
  outcome_unknown: faultSpec(
    500,
    false,
    "The gateway stopped while the call was running. Whether the call took effect is unknown.",
    "Check whether the call took effect before you invoke again.",
  ),
  gateway_starting: refusalSpec(
    503,
    "The gateway is still recovering calls from the previous run.",
    "Try again in a moment.",
    true,
  ),
  gateway_stopping: refusalSpec(
    503,
    "The gateway is shutting down.",
    "Try again after the gateway has started.",
    true,
  ),

  // Authentication.
  "auth.missing": refusalSpec(
    401,
    "No credential was sent.",
    "Send `Authorization: Bearer TOKEN`; the admin token is in $BACKPLANE_HOME/admin.token.",
  ),
  "auth.invalid": refusalSpec(
    401,
    "The credential is unknown, revoked or expired.",
    "Create a new key with `backplane key create`.",
  ),
  "auth.scope": refusalSpec(
    403,
    "The credential lacks a scope that this call needs.",
    "Use a key with the scope named in details.needs.",
  ),
  "auth.host": refusalSpec(
    403,
    "The Host header does not name an address of this gateway.",
    "Use the URL that the gateway printed, or add the name to listen.hosts in backplane.toml.",
  ),
  "auth.origin": refusalSpec(
    403,
    "The request comes from another origin.",
    "Call the API from the console's own origin, or without an Origin header.",
  ),
  "auth.link_used": refusalSpec(
    401,
    "This sign-in link was already used or has expired.",
    "Run `backplane open` for a new link.",
  ),

  // Requests.
  "request.invalid": refusalSpec(
    400,
    "The request is not valid.",
    "Correct the fields named in details.issues.",
  ),
  "request.not_json": refusalSpec(415, "The body is not JSON.", "Send `Content-Type: application/json`."),
  "request.too_large": refusalSpec(
    413,
    "The body is larger than the limit.",
    "Send a smaller body, or raise limits.body_bytes in backplane.toml.",
  ),
  "request.precondition": refusalSpec(
    412,
    "The resource has changed since you read it.",
    "Read the resource again and send its ETag in If-Match.",
  ),
  "request.overloaded": refusalSpec(
    429,
    "The gateway is at capacity.",
    "Try again after the time in the Retry-After header.",
    true,
  ),
  "request.cancelled": refusalSpec(
    409,
    "The operation was stopped before it finished.",
    "Run it again if you need the result.",
  ),
  "route.not_found": refusalSpec(404, "There is no such route.", "See /openapi.json for the routes."),
  "idempotency.conflict": refusalSpec(
    409,
    "This Idempotency-Key was used for another request.",
    "Use a new key for a new request.",
  ),
  "idempotency.in_progress": refusalSpec(
    409,
    "The first request with this Idempotency-Key is still running.",
    "Wait until the first request has finished, then send the same request again.",
    true,
  ),

  // Packages.
  "package.not_found": refusalSpec(
    404,
    "There is no such package.",
    "List packages with `backplane plugin list`.",
  ),
  "package.invalid": refusalSpec(
    422,
    "The manifest is not valid.",
    "Correct the problem that the message names.",
  ),
  "package.unsafe": refusalSpec(
    422,
    "The archive contains an entry that must not be unpacked.",
    "Pack the plugin again with `backplane plugin pack`; the message names the entry.",
  ),
  "package.conflict": refusalSpec(
    409,
    "This version is already installed with different content.",
    "Increase the version of the plugin and install it again; installed versions never change. While you develop it in a folder: backplane plugin install FOLDER --editable",
  ),
  "package.bound": refusalSpec(
    409,
    "A binding uses the package.",
    "Delete the bindings named in details.bindings first.",
  ),
  "package.platform": refusalSpec(
    422,
    "The package does not support this machine.",
    "Use a build for one of the platforms in details.supported.",
  ),
  "package.schema": refusalSpec(
    422,
    "A schema of the package is missing or cannot be used.",
    "Correct the schema file named in the message.",
  ),
  "package.corrupt": refusalSpec(
    409,
    "The installed files were changed after the installation.",
    "Install the same package again to restore its files, and find out what changed them.",
  ),
  "package.files_missing": refusalSpec(
    409,
    "The files of the package are neither on this gateway nor in the database that it shares with others.",
    "Install the same version of the package again. For gateways that share a database, one installation is enough.",
  ),
  "package.source_forbidden": refusalSpec(
    403,
    "Only an admin credential may install from this source.",
    "Upload a packed archive, or ask an admin to install it.",
  ),
  "package.credential_file": refusalSpec(
    422,
    "The folder contains a file that looks like a credential.",
    "Remove the file named in the message, or list it in .vaiignore.",
  ),
  "marketplace.not_found": refusalSpec(
    404,
    "The marketplace has no such entry.",
    "See: backplane plugin search",
  ),
  "marketplace.not_available": refusalSpec(
    409,
    "The entry cannot be installed.",
    "Its card says what is missing: backplane plugin search ID --json",
  ),
  "marketplace.mismatch": refusalSpec(
    422,
    "The artifact does not match its card in the marketplace.",
    "Do not install it. Report it to the publisher of the catalog.",
  ),
  "package.source_invalid": refusalSpec(
    422,
    "The source cannot be read as a package.",
    "Specify a folder with vai-plugin.toml, META-INF/hefty-plugin.json, tools/*.ts or a plugin.json of Agent Plugins, or an archive of such a folder.",
  ),
  "package.dependency_refused": refusalSpec(
    422,
    "A dependency does not come from the registry or package index.",
    "Ask the author to depend on a published version. The gateway never fetches URL, git, file or link dependencies.",
  ),

  "package.source_mismatch": refusalSpec(
    422,
    "The package declares a source other than the one it comes from.",
    "Install it from the source that it declares. If you made the copy yourself: backplane plugin install REFERENCE --accept-source",
  ),
  "package.digest_mismatch": refusalSpec(
    422,
    "The downloaded bytes are not the ones that were published.",
    "Try again. If the digests in details stay the same, do not install it, and tell the publisher and the operator of the registry.",
  ),

  // Signatures of packages.
  "signature.missing": refusalSpec(
    422,
    "The package is not signed, and this source requires a signature.",
    "Ask the publisher for a signed package (backplane plugin sign), or change packages.require_signature in backplane.toml.",
  ),
  "signature.invalid": refusalSpec(
    422,
    "The signature was not made by the key that it specifies, or it cannot be read.",
    "Do not install it. Ask the publisher to sign it again: backplane plugin sign PACKAGE --key FILE",
  ),
  "signature.mismatch": refusalSpec(
    422,
    "The signature belongs to another package, version, content or dependency lock.",
    "Do not install it. Ask the publisher to sign exactly this package; details shows what the signature covers.",
  ),
  "signature.untrusted": refusalSpec(
    422,
    "The signature was made by a key that is not trusted for this package.",
    "If you trust the publisher, get the public key from a source that you trust: backplane key trust FILE --name NAME --packages PATTERNS",
  ),
  "signature.revoked": refusalSpec(
    422,
    "The key that signed the package is revoked.",
    "Ask the publisher for a package that is signed with another key, and trust that key: backplane key trust FILE --name NAME",
  ),
  "signature.expired": refusalSpec(
    422,
    "The key that signed the package is not valid at this time.",
    "If the publisher still uses the key, renew it: backplane key trust FILE --name NAME --not-after TIME. Otherwise ask for a package that is signed with a current key.",
  ),
  "signature.rollback": refusalSpec(
    409,
    "A newer signed version was installed before.",
    "Install the newest version. If you really want the older one: backplane plugin install SOURCE --allow-downgrade",
  ),

  // Provenance of npm packages.
  "provenance.missing": refusalSpec(
    422,
    "The package needs provenance, and there is none that can be read.",
    "Ask the publisher to publish it with provenance (npm publish --provenance), or change packages.require_provenance in backplane.toml.",
  ),
  "provenance.invalid": refusalSpec(
    422,
    "The registry has a provenance attestation for the package, but it is not valid.",
    "Do not install it. Try again later, or try another version. If the error persists, tell the publisher and the operator of the registry.",
  ),
  "provenance.mismatch": refusalSpec(
    422,
    "The provenance attestation is valid, but it belongs to something other than this package.",
    "Do not install it. Tell the publisher and the operator of the registry; details shows what the attestation covers.",
  ),
  "trusted_key.not_found": refusalSpec(
    404,
    "There is no such trusted key.",
    "List the keys with `backplane key list`.",
  ),
  "trusted_key.conflict": refusalSpec(
    409,
    "The key was revoked, and a revoked key cannot be trusted again.",
    "Ask the publisher for packages that are signed with a new key, and trust that key: backplane key trust FILE --name NAME",
  ),

  // OCI registries.
  "registry.unreachable": refusalSpec(
    502,
    "The registry cannot be reached, or it failed.",
    "Check the host in the reference and try again later.",
    true,
  ),
  "registry.denied": refusalSpec(
    422,
    "The registry denied the request.",
    "Store a credential for the host named in details.registry: `backplane secret set registry_HOST`, with the value USER:PASSWORD.",
  ),
  "registry.not_found": refusalSpec(
    422,
    "The registry has no such package.",
    "Check the name and the tag or digest in the reference.",
  ),
  "registry.invalid": refusalSpec(
    502,
    "The registry sent something that violates the protocol or a limit.",
    "Use another registry, or report this message to the operator of the registry.",
  ),

  // Workspace folders.
  "workspace.not_found": refusalSpec(
    404,
    "The folder does not exist or contains no tool files.",
    "Specify a folder on the gateway's machine that contains tools/*.ts or .js.",
  ),
  "workspace.changed": refusalSpec(
    409,
    "The files of the folder have changed since they were reviewed.",
    "Review the files again with `backplane workspace show DIR`, then trust the folder.",
  ),

  // Bindings and exports.
  "binding.not_found": refusalSpec(
    404,
    "There is no such binding.",
    "List bindings with `backplane binding list`.",
  ),
  "binding.invalid": refusalSpec(
    422,
    "The binding is not valid.",
    "Correct the fields named in details.issues.",
  ),
  "binding.conflict": refusalSpec(
    409,
    "This export version is already bound in this scope.",
    "Change the existing binding named in details.binding_id.",
  ),
  "binding.not_active": refusalSpec(
    409,
    "The binding is not active.",
    "Bind the secret slots named in details.unbound, or enable it with `backplane binding enable`.",
  ),
  "binding.class_forbidden": refusalSpec(
    403,
    "Only an admin credential may lower the class of a binding.",
    "Ask an operator, or use the admin token.",
  ),
  "export.not_found": refusalSpec(
    404,
    "No binding makes this export usable here.",
    "List the tools with `backplane tool list --all` and hidden tools with `backplane binding tools ID`; bind an export with `backplane binding create`.",
  ),
  "skill.not_found": refusalSpec(
    404,
    "The skill does not exist here, or it has no such text.",
    "List the skills with the tool `skill`, or bind the package that contains the skill.",
  ),

  // The door.
  "invocation.not_found": refusalSpec(
    404,
    "There is no such invocation.",
    "List invocations with `backplane invocation list`.",
  ),
  "artifact.not_found": refusalSpec(
    404,
    "The invocation has no such artifact, or its bytes were removed.",
    "Use the sha256 from the invocation's result. Bytes are removed after retention.artifacts_days.",
  ),
  "invocation.settled": refusalSpec(
    409,
    "The invocation has already ended.",
    "Read it with GET /v1/invocations/{id}.",
  ),
  "invocation.queue_full": refusalSpec(
    429,
    "Too many calls are queued for this export.",
    "Try again after the time in the Retry-After header.",
    true,
  ),
  "input.invalid": refusalSpec(
    422,
    "The input does not match the export's schema.",
    "Correct the input at the paths named in details.issues.",
  ),
  "policy.denied": refusalSpec(
    403,
    "The policy does not allow this call.",
    "Ask an operator to change the rule named in the message.",
  ),
  "tool.collision": refusalSpec(
    409,
    "Another source already provides a tool with this name.",
    "Find both with `backplane tool list --all`, then rename one of them or remove its binding.",
  ),
  "tool.not_found": refusalSpec(
    404,
    "The catalog contains no such tool for this caller.",
    "Run `backplane tool list --all` to see all tools and why a tool is not offered.",
  ),
  "target.host_forbidden": refusalSpec(
    403,
    "The tool must run on the gateway's machine outside the sandbox, which the binding does not allow.",
    "If you trust the package, an admin can allow it with `backplane binding set ID --host-target`.",
  ),
  "tool.load_failed": refusalSpec(
    422,
    "The tool is listed but could not be loaded.",
    "Correct the file named in the message, then install or save it again.",
  ),
  "approval.not_found": refusalSpec(
    404,
    "There is no such approval.",
    "List approvals with `backplane approve list`.",
  ),
  "approval.rejected": refusalSpec(403, "A person rejected this call.", "Read the feedback in the message."),
  "approval.expired": refusalSpec(
    403,
    "The approval was not answered in time.",
    "Invoke again and answer the approval with `backplane approve allow`.",
    true,
  ),
  "approval.closed": refusalSpec(
    409,
    "The approval was already answered or has expired.",
    "Read the approval to see the decision; this answer had no effect.",
  ),
  "approval.changed": refusalSpec(
    409,
    "The call changed after the approval was requested.",
    "Invoke again to request an approval for the new version.",
  ),
  "allow_rule.not_found": refusalSpec(
    404,
    "There is no such allow rule.",
    "List allow rules with `backplane allow list`.",
  ),
  "allow_rule.refused": refusalSpec(
    403,
    "Calls to this tool or server cannot be allowed permanently.",
    "The message names the reason. Answer single calls with `backplane approve allow`.",
  ),
  "allow_rule.too_many": refusalSpec(
    409,
    "The organization has reached the maximum number of allow rules.",
    "Remove rules that are no longer needed with `backplane allow remove`.",
  ),
  "sandbox.unavailable": refusalSpec(
    503,
    "This export requires a sandbox, and no sandbox is available.",
    "Run `backplane doctor` to see what is missing and how to install it.",
  ),
  "egress.unreachable": refusalSpec(
    502,
    "The requested host does not respond.",
    "Check the host name and whether the host is running, then try again.",
    true,
  ),
  "class.unsupported": refusalSpec(
    422,
    "The execution class does not support the package's protocol.",
    "Set policy.class to worker or isolated.",
  ),

  // Sessions and chains.
  "session.not_found": refusalSpec(
    404,
    "There is no such session in this workspace.",
    "List sessions with GET /v1/sessions.",
  ),
  "session.conflict": refusalSpec(
    409,
    "The workspace already has a session with this id.",
    "Use the existing session, or choose another id.",
  ),
  "chain.not_found": refusalSpec(
    404,
    "There is no such chain.",
    "List the session's chains with GET /v1/chains.",
  ),
  "chain.archived": refusalSpec(
    409,
    "The chain is archived and accepts no new entries.",
    "Write to the session's head chain.",
  ),
  "chain.changed": refusalSpec(
    409,
    "The session's head has moved or grown since it was read.",
    "Read the session again and repeat the request.",
  ),

  "run.not_found": refusalSpec(
    404,
    "There is no such run.",
    "List the chain's runs with GET /v1/chains/{id}/runs.",
  ),
  "run.ended": refusalSpec(409, "The run has already ended.", "Start a new run; there is nothing to cancel."),
  "run.taken_over": refusalSpec(
    409,
    "Another gateway has taken over this run.",
    "Read the run to see its result; no data was lost.",
    true,
  ),
  "execution.not_found": refusalSpec(
    404,
    "There is no such harness execution.",
    "Read the run of the harness: harness.execution_id is its execution.",
  ),
  "execution.running": refusalSpec(
    409,
    "The harness execution is running.",
    "Wait until its run has ended, or cancel the run, then resume it.",
  ),
  "harness.limit": refusalSpec(
    403,
    "The harness has reached a limit of its policy.",
    "Start the harness with a higher limit; details.limit names it.",
  ),
  "delivery.not_found": refusalSpec(
    404,
    "There is no such delivery here.",
    "List the deliveries with `backplane delivery list`. Finished deliveries are removed after their retention period.",
  ),
  "delivery.conflict": refusalSpec(
    409,
    "The delivery is not in a state that allows this.",
    "Only a dead delivery can be replayed, and only a pending or dead one can be discarded.",
  ),
  "delivery.taken_over": refusalSpec(
    409,
    "Another gateway has taken over the delivery.",
    "Nothing to do: the other gateway delivers it under the same delivery_id.",
  ),
  "session.busy": refusalSpec(
    429,
    "The session's message queue is full.",
    "Wait until the running turn has ended, or interrupt it, then send the message again.",
    true,
  ),
  "loop.failed": faultSpec(
    500,
    false,
    "The turn failed.",
    "Read the message, and run `backplane doctor` to find a missing or broken plugin.",
  ),
  "loop.iterations": refusalSpec(
    422,
    "The turn reached its limit of model calls.",
    "Send another message to continue, or raise kernel.max_iterations.",
  ),
  "llm.failed": refusalSpec(
    502,
    "The model provider failed.",
    "Check the provider instance with `backplane provider test ID`, or switch to another one.",
    true,
  ),

  // Model endpoints.
  "llm.model_not_found": refusalSpec(
    404,
    "No provider instance offers this model to the caller.",
    "List the models with GET /v1/models; specify one as INSTANCE/MODEL. An operator adds instances with `backplane provider add`.",
  ),
  "llm.budget_exceeded": refusalSpec(
    429,
    "The key or the project has used its budget for model calls.",
    "Wait until the period ends, or ask an operator to raise the limit of the key or the project.",
    true,
  ),
  "llm.call_not_found": refusalSpec(
    404,
    "There is no such model call.",
    "List the calls with `backplane llm calls`.",
  ),

  // Kernel plugins and providers.
  "plugin.not_found": refusalSpec(
    404,
    "There is no such plugin.",
    "List plugins with `backplane plugin list`.",
  ),
  "plugin.bundled": refusalSpec(
    400,
    "A bundled plugin cannot be removed.",
    "Disable it with `backplane plugin disable NAME`.",
  ),
  "plugin.untrusted": refusalSpec(
    403,
    "The plugin must run in the gateway's own process, but no operator has trusted it.",
    "Run the plugin in its own process with class worker, or trust it by setting class inline on its binding.",
  ),
  "plugin.dependency": refusalSpec(
    409,
    "A dependency of the plugin is missing, failed to load, or depends on the plugin itself.",
    "Install and bind the plugins named in the message. The gateway loads the plugin again when they change.",
  ),
  "plugin.source_invalid": refusalSpec(
    400,
    "Plugins cannot be installed from this source.",
    "Specify a package from the npm registry (NAME or NAME@VERSION) or the Python index (pypi:NAME==VERSION), or a local folder.",
  ),
  "plugin.install_failed": refusalSpec(
    500,
    "The plugin could not be installed.",
    "Read the message for the cause. Installed plugins are unchanged.",
  ),
  "plugin.invalid": refusalSpec(
    422,
    "The package is not a kernel plugin.",
    "Add an entry under yaya.plugins.v1 with a name and one category to its package.json.",
  ),
  "provider.not_found": refusalSpec(
    404,
    "There is no such provider instance.",
    "List provider instances with `backplane provider list`.",
  ),
  "provider.conflict": refusalSpec(
    409,
    "The change conflicts with another provider instance.",
    "Activate another instance first, or choose another id.",
  ),
  "provider.invalid": refusalSpec(
    400,
    "The provider instance is not valid.",
    "Use an id of 3 to 64 characters (a-z, 0-9 and -), the name of a loaded llm-provider plugin, and fields from its schema.",
  ),
  "authority.key_revoked": refusalSpec(
    403,
    "The key that requested this work was revoked.",
    "Repeat the request with a valid key; no further work was started.",
  ),
  "authority.key_expired": refusalSpec(
    403,
    "The key that requested this work has expired.",
    "Repeat the request with a valid key; no further work was started.",
  ),
  "authority.role_disabled": refusalSpec(
    403,
    "The policy disables the role of the caller that requested this work.",
    "Ask an admin to enable the role with `backplane policy set roles.ROLE.disabled false`.",
  ),
  "authority.project_archived": refusalSpec(
    403,
    "The project is archived; work in it neither starts nor continues.",
    "Ask an admin to reopen it with `backplane policy set archived false --level project`.",
  ),

  // Secrets and keys.
  "secret.not_found": refusalSpec(
    404,
    "There is no such secret.",
    "Store it with `backplane secret set NAME`.",
  ),
  "secret.in_use": refusalSpec(
    409,
    "A binding uses this secret.",
    "Unbind the secret from the bindings named in details.used_by first.",
  ),
  "key.not_found": refusalSpec(404, "There is no such key.", "List keys with `backplane key list`."),

  // The gateway's sign-in to a remote server.
  "sign_in.needed": refusalSpec(
    409,
    "The server requires a sign-in.",
    "Sign in with `backplane binding login ID`. If the server accepts a fixed token, bind it with `backplane binding set ID --secret authorization=NAME`.",
  ),
  "sign_in.failed": refusalSpec(
    502,
    "The sign-in to the server failed.",
    "Read the authorization server's response in the message, then start again with `backplane binding login ID`.",
  ),
  "sign_in.expired": refusalSpec(
    400,
    "No pending login matches this redirect: the login was completed or replaced, or has expired.",
    "Start again with `backplane binding login ID`.",
  ),
  "sign_in.other_browser": refusalSpec(
    403,
    "This login belongs to another browser, which opened the URL from `backplane binding login` first.",
    "Finish the login in that browser. If that browser is not yours, start again with `backplane binding login ID`, which ends this login. If a terminal waits for a URL (`--paste`), paste the URL of this window there.",
  ),

  // The live configuration.
  "config.not_found": refusalSpec(
    404,
    "There is no such configuration key.",
    "List the configuration with `backplane config list`.",
  ),
  "config.limit": refusalSpec(
    413,
    "The change would exceed a limit of the configuration.",
    "Store smaller values, or unset keys that are not needed; details.limit names the limit.",
  ),

  // Store, configuration and the gateway itself.
  "store.unavailable": faultSpec(
    503,
    true,
    "The store is unavailable; nothing was changed.",
    "Check the disk or the database, then try again.",
  ),
  "store.damaged": faultSpec(
    500,
    false,
    "A row or a file of the store is damaged.",
    "Stop the gateway and run `backplane store check`, which names the damage and how to repair or restore it.",
  ),
  "store.commits_lost": faultSpec(
    500,
    false,
    "Acknowledged commits are missing from the store.",
    "Restore the store from a backup, or accept the loss with `backplane store repair --accept-loss`.",
  ),
  "store.schema_newer": faultSpec(
    500,
    false,
    "A newer version of Backplane has written the store.",
    "Start the newer version, or restore a backup made before the upgrade.",
  ),
  "config.invalid": refusalSpec(
    400,
    "The configuration is not valid.",
    "Correct the key named in the message in backplane.toml or the environment.",
  ),
  "home.locked": refusalSpec(
    409,
    "Another gateway uses this home.",
    "Stop the other gateway with `backplane down`, or set BACKPLANE_HOME to another folder.",
  ),
  "home.restoring": refusalSpec(
    409,
    "A restore of this home was interrupted.",
    "Complete it with `backplane restore --resume`.",
  ),
  "backup.invalid": refusalSpec(
    400,
    "The archive is not a complete backup.",
    "Specify another archive that `backplane backup` wrote. Nothing was changed.",
  ),
  "home.unsafe": refusalSpec(
    400,
    "Another user can change the home folder.",
    "Follow the instructions in the message, or set BACKPLANE_HOME to a folder that belongs to the gateway's own user.",
  ),
  "listen.unsafe": refusalSpec(
    400,
    "Listening on other interfaces without TLS would expose credentials.",
    "Put a TLS proxy in front and start with --insecure-listen, or listen on 127.0.0.1.",
  ),
  "daemon.unreachable": refusalSpec(
    503,
    "No gateway responds at this address.",
    "Start a gateway with `backplane up`, or set BACKPLANE_URL.",
    true,
  ),
  "client.config_invalid": refusalSpec(
    400,
    "The configuration file of the client cannot be edited safely.",
    "Correct the file at the place named in the message, then run the command again. Nothing was changed.",
  ),
  "client.config_changed": refusalSpec(
    409,
    "The configuration file of the client changed while it was being edited.",
    "Run the command again; close the client first if it keeps writing the file.",
  ),
  "client.entry_conflict": refusalSpec(
    409,
    "The client has a server with this name that `backplane client connect` did not write.",
    "Choose another name with --name, or remove that entry from the file yourself.",
  ),
  "cli.usage": refusalSpec(
    400,
    "The command line is not valid.",
    "Run the command with --help to see its options.",
  ),
  internal: faultSpec(
    500,
    true,
    "An internal error occurred in the gateway.",
    "Try again. If the error persists, report it with the request id.",
  ),
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERROR_CODES;

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(ERROR_CODES, value);
}
