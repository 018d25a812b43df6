/** The codes of the agent host: sessions, runs, the loop, kernel plugins and providers. Part of ERROR_CODES. */
import { fault, refusal } from "./error-spec.ts";

export const AGENT_CODES = {
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
} as const;
