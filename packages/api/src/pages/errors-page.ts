/** `/docs/errors`: the page that every envelope's doc_url points at. */
import { ERROR_CODES, type ErrorSpec } from "@backplane/contract";

const FAMILIES: Record<ErrorSpec["family"], string> = {
  refusal: "Refused by the gateway",
  wire: "The boundary to a plugin failed",
  plugin: "The plugin itself said no",
  fault: "Broken on our side",
};

export function renderErrorsPage(): string {
  const codes = Object.entries(ERROR_CODES) as [string, ErrorSpec][];
  const sections = Object.entries(FAMILIES).map(([family, title]) => {
    const rows = codes.filter(([, spec]) => spec.family === family).map(([code, spec]) => row(code, spec));
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
<header class="bar"><a class="brand" href="/">Backplane</a><nav aria-label="Pages"><a href="/overview">Overview</a><a href="/explorer">API explorer</a><a href="/docs/errors" aria-current="page">Error codes</a></nav></header>
<main class="page"><h1>Error codes</h1>
<p class="lead">Every failure has one of these codes. Compare the code, never the message.</p>
${sections.join("\n")}
</main>
</body>
</html>
`;
}

function row(code: string, spec: ErrorSpec): string {
  const again = spec.retryable ? '<span class="tag">may be tried again</span>' : "";
  return `<article class="card code" id="${code}"><h3><a href="#${code}"><code>${code}</code></a> <span class="tag">${spec.http}</span> ${again}</h3><p>${prose(spec.what)}</p><p class="fix">${prose(spec.remedy)}</p></article>`;
}

/** Text with `code` marks. */
function prose(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replace(/`([^`]+)`/g, "<code>$1</code>");
}
