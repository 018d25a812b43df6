/** `/docs/errors`, the page that doc_url of every error links to. */
import { ERROR_CODES, type ErrorSpec } from "@backplane/contract";
import { escapeHtml } from "./escape-html.ts";

const FAMILIES: Record<ErrorSpec["family"], string> = {
  refusal: "Refused by the gateway",
  wire: "Communication with a plugin failed",
  plugin: "Returned by a plugin",
  fault: "Failures of the gateway",
};

export function renderErrorsPage(): string {
  const codes = Object.entries(ERROR_CODES) as [string, ErrorSpec][];
  const sections = Object.entries(FAMILIES).map(([family, title]) => {
    const rows = codes
      .filter(([, spec]) => spec.family === family)
      .map(([code, spec]) => renderCode(code, spec));
    return `<section><h2>${title}</h2>${rows.join("\n")}</section>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Error codes · Backplane</title>
<link rel="stylesheet" href="/static/backplane.css">
<script src="/static/chat/theme.js"></script>
</head>
<body>
<header class="bar page-bar"><a class="brand" href="/">Backplane</a><nav aria-label="Pages"><a href="/console">Console</a><a href="/overview">Overview</a><a href="/explorer">API explorer</a><a href="/docs/errors" aria-current="page">Error codes</a></nav></header>
<main class="page"><h1>Error codes</h1>
<p class="lead">Every error has one of these codes. Compare the code, not the message.</p>
${sections.join("\n")}
</main>
</body>
</html>
`;
}

function renderCode(code: string, spec: ErrorSpec): string {
  const retry_tag = spec.retryable ? '<span class="tag">retryable</span>' : "";
  return `<article class="card code" id="${code}"><h3><a href="#${code}"><code>${code}</code></a> <span class="tag">${spec.http}</span> ${retry_tag}</h3><p>${renderProse(spec.description)}</p><p class="fix">${renderProse(spec.remedy)}</p></article>`;
}

/** Text in which backticks mark code. */
function renderProse(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}
