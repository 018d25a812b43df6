/**
 * Every error code of the project, once. Three families that never mix: `wire` (the boundary to a plugin
 * failed), `plugin` (the plugin itself said no), `refusal` (the gateway said no before or around it);
 * `fault` is ours. `http` is read only by the api room. docs/errors.md is generated from this list.
 */
import { type ErrorSpec, fault, plugin, refusal, wire } from "./error-spec.ts";

export const ERROR_CODES = {
  // The boundary to a plugin.
  launch_failed: wire(
    502,
    false,
    "The plugin's process could not be started.",
    "Read the diagnosis in the message; it names the file and the fix.",
  ),
  handshake_failed: wire(
    502,
    false,
    "The plugin did not introduce itself correctly.",
    "Compare the plugin's first frame with spec/protocol.md; stray output on stdout is the usual cause.",
  ),
  protocol_version_mismatch: wire(
    502,
    false,
    "The plugin speaks another protocol version.",
    "Install a build of the plugin for the protocol named in its manifest.",
  ),
  timeout: wire(
    504,
    true,
    "The deadline passed before the plugin answered.",
    "Raise timeout_ms on the call or in the binding's policy, or make the plugin faster.",
  ),
  crashed: wire(
    502,
    true,
    "The plugin's process ended before it answered.",
    "Read the invocation's stderr for the cause: `backplane invocation show ID`.",
  ),
  malformed_response: wire(
    502,
    false,
    "The plugin's answer broke the protocol or its own output schema.",
    "Run the plugin's conformance test; the message names the broken rule.",
  ),
  tool_not_exposed: wire(
    502,
    false,
    "The plugin does not offer this tool.",
    "Check the tool's name against exposed_tools in the plugin's handshake.",
  ),
  capability_not_declared: wire(
    502,
    false,
    "Capabilities are granted, but the plugin declares none.",
    "Declare the needed capabilities in the plugin's handshake manifest, or remove the grant.",
  ),
  capability_not_allowed: wire(
    502,
    false,
    "The plugin asks for a capability that it was not granted.",
    "Add the capability to policy.capabilities of the binding if you trust the plugin with it.",
  ),
  frame_invalid: wire(
    502,
    false,
    "A frame could not be decoded.",
    "Send one complete JSON object per frame, as spec/protocol.md says.",
  ),
  frame_too_large: wire(
    502,
    false,
    "A frame is larger than the limit.",
    "Pass large data by artifact in the scratch dir, or raise limits.frame_bytes.",
  ),
  artifact_refused: wire(
    502,
    false,
    "The plugin's answer refers to a file that cannot be taken over.",
    "Write a regular file into scratch_dir and refer to it by its relative path; details.reason names the broken rule.",
  ),
  backpressure: wire(
    503,
    true,
    "The plugin does not read its input fast enough.",
    "Try again later; if it stays, the plugin blocks its stdin.",
  ),
  slow_start: wire(
    503,
    true,
    "The plugin did not start in time.",
    "Call again. If the machine is not busy, raise the limits in [timeouts] or make the plugin start faster.",
  ),
  crash_loop: wire(
    503,
    true,
    "The plugin keeps dying at launch and is held back.",
    "Fix the plugin or its configuration; it is tried again at the time named in details.retry_at.",
  ),

  // What the plugin itself answered.
  plugin_failed: plugin(200, false, "The plugin reports that it failed.", "The message is the plugin's own."),
  plugin_protocol_error: plugin(
    502,
    false,
    "The plugin answered ok:false.",
    "The message is the plugin's own; ok:false means that it could not read the request.",
  ),
  plugin_retryable: plugin(200, true, "The plugin reports a failure that may pass.", "Invoke again later."),

  // How an invocation can end without an answer.
  cancelled: refusal(
    409,
    "The invocation was cancelled.",
    "Nothing to do; invoke again if you need the result.",
  ),
  outcome_unknown: fault(
    500,
    false,
    "The gateway stopped while this call was running; whether its effect happened is unknown.",
    "Check the effect by hand before you invoke again.",
  ),
  gateway_starting: refusal(
    503,
    "The gateway is still taking up what an earlier one left.",
    "Try again in a moment.",
    true,
  ),
  gateway_stopping: refusal(503, "The gateway is shutting down.", "Try again when it is up.", true),

  // Who is asking.
  "auth.missing": refusal(
    401,
    "No credential was sent.",
    "Send `Authorization: Bearer TOKEN`; the admin token is in $BACKPLANE_HOME/admin.token.",
  ),
  "auth.invalid": refusal(
    401,
    "The credential is unknown, revoked or expired.",
    "Create a new key with `backplane key create`.",
  ),
  "auth.scope": refusal(
    403,
    "The credential lacks a scope that this call needs.",
    "Use a key that has the scope named in details.needs.",
  ),
  "auth.host": refusal(
    403,
    "The Host header names no address of this gateway.",
    "Use the printed URL, or add the name to listen.hosts in backplane.toml.",
  ),
  "auth.origin": refusal(
    403,
    "The request comes from another origin.",
    "Call the API from the console's own origin, or without an Origin header.",
  ),
  "auth.link_used": refusal(
    401,
    "This sign-in link was already used or has expired.",
    "Run `backplane open` for a new one.",
  ),

  // What was asked.
  "request.invalid": refusal(
    400,
    "The request does not have the expected shape.",
    "Correct the fields named in details.issues.",
  ),
  "request.not_json": refusal(415, "The body is not JSON.", "Send `Content-Type: application/json`."),
  "request.too_large": refusal(
    413,
    "The body is larger than the limit.",
    "Send less, or raise limits.body_bytes in backplane.toml.",
  ),
  "request.precondition": refusal(
    412,
    "The resource has changed since you read it.",
    "Read it again and send its ETag in If-Match.",
  ),
  "request.overloaded": refusal(
    429,
    "The gateway has as much work as it takes.",
    "Wait as long as Retry-After says and try again.",
    true,
  ),
  "route.not_found": refusal(404, "There is no such route.", "See /openapi.json for the routes."),
  "idempotency.conflict": refusal(
    409,
    "This Idempotency-Key was used for another request.",
    "Use a new key for a new request.",
  ),
  "idempotency.in_progress": refusal(
    409,
    "The first request with this Idempotency-Key is still running.",
    "Wait for it and send the same request again.",
    true,
  ),

  // Packages.
  "package.not_found": refusal(
    404,
    "There is no such package.",
    "List packages with `backplane plugin list`.",
  ),
  "package.invalid": refusal(422, "The manifest is not valid.", "Change the line named in the message."),
  "package.unsafe": refusal(
    422,
    "The archive holds an entry that must not be unpacked.",
    "Pack the plugin again with `backplane plugin pack`; the message names the entry.",
  ),
  "package.conflict": refusal(
    409,
    "This version is installed already with other bytes.",
    "Raise the version; installed versions never change.",
  ),
  "package.bound": refusal(
    409,
    "The package is in use by a binding.",
    "Delete the bindings named in details.bindings first.",
  ),
  "package.platform": refusal(
    422,
    "The package does not support this machine.",
    "Use a build for one of the platforms in details.supported.",
  ),
  "package.schema": refusal(
    422,
    "A schema of the package is missing or not usable.",
    "Correct the schema file named in the message.",
  ),
  "package.corrupt": refusal(
    409,
    "The installed bytes are not the bytes that were installed.",
    "Install the same package here again, which restores its files, and find out what changed them.",
  ),
  "package.source_forbidden": refusal(
    403,
    "Only an admin credential may install from a folder of the host.",
    "Upload a packed archive, or use the admin token.",
  ),
  "package.credential_file": refusal(
    422,
    "The folder holds a file that looks like a credential.",
    "Remove the file named in the message, or list it in .vaiignore.",
  ),
  "package.source_invalid": refusal(
    422,
    "The source cannot be read as a package.",
    "Name a folder with vai-plugin.toml, META-INF/hefty-plugin.json, tools/*.ts or a plugin.json of Agent Plugins, or an archive of its content.",
  ),
  "package.dependency_refused": refusal(
    422,
    "A dependency does not come from the npm registry.",
    "Ask the author to depend on a published version; sources by URL, git, file or link are never fetched.",
  ),

  // Folders of the gateway's machine whose tool files are used as they are.
  "workspace.not_found": refusal(
    404,
    "There is no such folder, or it holds no tool files.",
    "Name a folder of the gateway's machine that holds tools/*.ts or .js.",
  ),
  "workspace.changed": refusal(
    409,
    "The files of the folder are not those that were reviewed.",
    "Look again with `backplane workspace show DIR`, then trust what you see.",
  ),

  // Bindings and exports.
  "binding.not_found": refusal(
    404,
    "There is no such binding.",
    "List bindings with `backplane binding list`.",
  ),
  "binding.invalid": refusal(422, "The binding is not valid.", "Correct the fields named in details.issues."),
  "binding.conflict": refusal(
    409,
    "This export version is bound already in this scope.",
    "Change the existing binding named in details.binding_id.",
  ),
  "binding.not_active": refusal(
    409,
    "The binding is not active.",
    "Bind the secret slots named in details.unbound, or enable it with `backplane binding enable`.",
  ),
  "binding.class_forbidden": refusal(
    403,
    "Only an admin credential may lower the class of a binding.",
    "Ask an operator, or use the admin token.",
  ),
  "export.not_found": refusal(
    404,
    "No binding makes this export usable here.",
    "See what there is with `backplane tool list --all`; bind it with `backplane binding create`; `backplane binding tools ID` shows what is kept back.",
  ),
  "skill.not_found": refusal(
    404,
    "There is no such skill here, or no such text in it.",
    "List the skills with the tool `skill`, or bind the package that has it.",
  ),

  // The door.
  "invocation.not_found": refusal(
    404,
    "There is no such invocation.",
    "List invocations with `backplane invocation list`.",
  ),
  "artifact.not_found": refusal(
    404,
    "The invocation has no such artifact, or its bytes are gone.",
    "Take sha256 from the invocation's result; retention.artifacts_days says how long bytes are kept.",
  ),
  "invocation.settled": refusal(
    409,
    "The invocation has ended already.",
    "Read it with GET /v1/invocations/{id}.",
  ),
  "invocation.queue_full": refusal(
    429,
    "Too many calls wait for this export.",
    "Wait as long as Retry-After says and try again.",
    true,
  ),
  "input.invalid": refusal(
    422,
    "The input does not match the export's schema.",
    "Correct the input at the paths named in details.issues.",
  ),
  "policy.denied": refusal(
    403,
    "Policy does not allow this call.",
    "The message names the rule; an operator can change it.",
  ),
  "tool.collision": refusal(
    409,
    "Two sources offer a tool of this name, and the other one has it.",
    "See `backplane tool list --all`; rename one of the two, or remove its binding.",
  ),
  "tool.not_found": refusal(
    404,
    "The catalog has no such tool for this caller.",
    "See `backplane tool list --all` for what there is and why something is not offered.",
  ),
  "target.host_forbidden": refusal(
    403,
    "The tool asks to run on the gateway's machine, outside of the sandbox, and nobody has allowed it.",
    "If you trust the package, let the admin allow it: backplane binding set ID --host-target.",
  ),
  "tool.load_failed": refusal(
    422,
    "The tool is listed but could not be loaded.",
    "Repair the file that the message names, and install or save it again.",
  ),
  "approval.not_found": refusal(
    404,
    "There is no such approval.",
    "List approvals with `backplane approve list`.",
  ),
  "approval.rejected": refusal(403, "A person rejected this call.", "Read the feedback in the message."),
  "approval.expired": refusal(
    403,
    "Nobody answered the approval in time.",
    "Invoke again, and answer with `backplane approve allow`.",
    true,
  ),
  "approval.closed": refusal(
    409,
    "The approval was answered or expired already.",
    "Nothing was run by this answer; read the approval for what was decided.",
  ),
  "approval.changed": refusal(
    409,
    "What the approval covers changed before the call started.",
    "Invoke again to be asked about the new version.",
  ),
  "sandbox.unavailable": refusal(
    503,
    "This export must run confined, and no sandbox is available.",
    "`backplane doctor` says what is missing and how to get it.",
  ),
  "egress.unreachable": refusal(
    502,
    "The host that was asked for does not answer.",
    "Check its name and whether it runs; then try again.",
    true,
  ),
  "class.unsupported": refusal(
    422,
    "This class cannot run the package's protocol.",
    "Set policy.class to worker or isolated.",
  ),

  // Sessions and chains.
  "session.not_found": refusal(
    404,
    "There is no such session in this workspace.",
    "List sessions with GET /v1/sessions.",
  ),
  "session.conflict": refusal(
    409,
    "This workspace has a session with that id already.",
    "Use the session that is there, or choose another id.",
  ),
  "chain.not_found": refusal(404, "There is no such chain.", "List the session's chains first."),
  "chain.archived": refusal(
    409,
    "The chain is archived; nothing is added to it any more.",
    "Write to the session's head chain.",
  ),
  "chain.changed": refusal(
    409,
    "The session's head has moved or grown since it was read.",
    "Read the session again and repeat.",
  ),

  "run.not_found": refusal(
    404,
    "There is no such run.",
    "List the chain's runs with GET /v1/chains/{id}/runs.",
  ),
  "run.ended": refusal(409, "The run has ended already.", "Nothing is left to cancel; start a new run."),
  "run.taken_over": refusal(
    409,
    "Another gateway carries on this run.",
    "Nothing is lost; read the run to see how it ends.",
    true,
  ),
  "session.busy": refusal(
    429,
    "The session has more waiting than it can take.",
    "Wait for the running turn, or interrupt it, then send again.",
    true,
  ),
  "loop.failed": fault(
    500,
    false,
    "The turn could not be finished.",
    "Read the message; `backplane doctor` shows which plugin is missing or broken.",
  ),
  "loop.iterations": refusal(
    422,
    "The turn used all the model calls that it may make.",
    "Send another message to go on, or raise kernel.max_iterations.",
  ),
  "llm.failed": refusal(
    502,
    "The model's provider failed.",
    "Check the instance with `backplane provider test ID`, or switch to another one.",
    true,
  ),

  // Kernel plugins and providers.
  "plugin.not_found": refusal(404, "There is no such plugin.", "List them with `backplane plugin list`."),
  "plugin.bundled": refusal(
    400,
    "A bundled plugin cannot be removed.",
    "Disable it instead: `backplane plugin disable NAME`.",
  ),
  "plugin.untrusted": refusal(
    403,
    "The plugin wants to run in the gateway's own process, and no operator has trusted it.",
    "Run it in a process of its own with class worker, or trust it with class inline on its binding.",
  ),
  "plugin.dependency": refusal(
    409,
    "A plugin that this one depends on is missing, did not load, or depends on it in turn.",
    "Install and bind the plugins that the message names; it is tried again when they change.",
  ),
  "plugin.source_invalid": refusal(
    400,
    "The source is not one that plugins are installed from.",
    "Name a package of the npm registry (NAME or NAME@VERSION) or a local folder.",
  ),
  "plugin.install_failed": refusal(
    500,
    "The plugin could not be installed.",
    "Read the message; what was installed before is unchanged.",
  ),
  "plugin.invalid": refusal(
    422,
    "The package is not a kernel plugin.",
    "Its package.json needs an entry under yaya.plugins.v1 with a name and one category.",
  ),
  "provider.not_found": refusal(
    404,
    "There is no such provider instance.",
    "List them with `backplane provider list`.",
  ),
  "provider.conflict": refusal(
    409,
    "The provider instance cannot be changed like this.",
    "Make another instance the active one first, or choose another id.",
  ),
  "provider.invalid": refusal(
    400,
    "The provider instance is not valid.",
    "Use an id of 3 to 64 of a-z, 0-9 and -, the name of a loaded llm-provider plugin, and fields that it knows.",
  ),
  "authority.key_revoked": refusal(
    403,
    "The key that asked for this was revoked.",
    "Nothing further was started; ask again with a key that is valid.",
  ),
  "authority.key_expired": refusal(
    403,
    "The key that asked for this has expired.",
    "Nothing further was started; ask again with a key that is valid.",
  ),
  "authority.role_disabled": refusal(
    403,
    "The role of whoever asked for this is disabled by the policy.",
    "An admin enables it again: `backplane policy set roles.ROLE.disabled false`.",
  ),
  "authority.project_archived": refusal(
    403,
    "The project is archived: nothing starts or goes on in it.",
    "An admin opens it again: `backplane policy set archived false --level project`.",
  ),

  // Secrets and keys.
  "secret.not_found": refusal(404, "There is no such secret.", "Store it with `backplane secret set NAME`."),
  "secret.in_use": refusal(
    409,
    "A binding uses this secret.",
    "Unbind it from the bindings named in details.used_by first.",
  ),
  "key.not_found": refusal(404, "There is no such key.", "List keys with `backplane key list`."),

  // The gateway's own sign-in at a server of a binding.
  "sign_in.needed": refusal(
    409,
    "The server asks for a sign-in.",
    "Sign in with `backplane binding login ID`; where the server takes a fixed token, bind it: `backplane binding set ID --secret authorization=NAME`.",
  ),
  "sign_in.failed": refusal(
    502,
    "The sign-in at the server did not succeed.",
    "The message says what the authorization server answered; begin again with `backplane binding login ID`.",
  ),
  "sign_in.expired": refusal(
    400,
    "This answer belongs to no sign-in that waits for one: it was used, replaced or began too long ago.",
    "Begin again with `backplane binding login ID`.",
  ),
  "sign_in.other_browser": refusal(
    403,
    "This sign-in belongs to another browser: the one that first opened the address that `backplane binding login` gave.",
    "Finish it there. If that browser is not yours, begin again with `backplane binding login ID`, which ends this one. If a terminal waits for an address (`--paste`), paste this window's address there.",
  ),

  // The live configuration.
  "config.not_found": refusal(
    404,
    "There is no such configuration key.",
    "List what is set with `backplane config list`.",
  ),
  "config.limit": refusal(
    413,
    "The configuration would become larger than its limits.",
    "Write less, or unset keys that are not needed; details.limit names the bound.",
  ),

  // Ours.
  "store.unavailable": fault(
    503,
    true,
    "The store did not take the write; nothing was acknowledged.",
    "Check the disk or the database, then try again.",
  ),
  "store.damaged": fault(
    500,
    false,
    "A row or a file of the store is damaged, so it is not used.",
    "Stop the gateway and run `backplane store check`; it names what is damaged and how to repair or restore it.",
  ),
  "store.commits_lost": fault(
    500,
    false,
    "Commits that were acknowledged are missing from the store.",
    "Restore the store from a backup, or accept the loss with `backplane store repair --accept-loss`.",
  ),
  "store.schema_newer": fault(
    500,
    false,
    "The store was written by a newer Backplane.",
    "Start the newer version, or restore a backup from before the upgrade.",
  ),
  "config.invalid": refusal(
    400,
    "The configuration is not valid.",
    "Correct the key named in the message in backplane.toml or the environment.",
  ),
  "home.locked": refusal(
    409,
    "Another gateway runs on this home.",
    "Stop it with `backplane down`, or set BACKPLANE_HOME to another folder.",
  ),
  "home.unsafe": refusal(
    400,
    "The home folder can be changed by another user.",
    "Do what the message says, or set BACKPLANE_HOME to a folder of the gateway's own user.",
  ),
  "listen.unsafe": refusal(
    400,
    "Listening beyond this machine without TLS would expose the credentials.",
    "Put a TLS proxy in front and start with --insecure-listen, or listen on 127.0.0.1.",
  ),
  "daemon.unreachable": refusal(
    503,
    "No gateway answers at this address.",
    "Start one with `backplane up`, or set BACKPLANE_URL.",
    true,
  ),
  "cli.usage": refusal(400, "The command line is not valid.", "Run the command with --help."),
  internal: fault(
    500,
    true,
    "Something broke inside the gateway.",
    "Try again; if it stays, report it with the request id.",
  ),
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERROR_CODES;

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(ERROR_CODES, value);
}
