import { escapeHtml } from "./escape-html.ts";

/** The URL of the page contains a code, so the page must not be cached and the URL must not be sent as a referrer. */
export const SIGN_IN_PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
};

/** The result of a sign-in or a login. The message may come from an authorization server, so it is escaped. */
export function renderSignInPage(title: string, message: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Backplane</title>
<link rel="stylesheet" href="/static/backplane.css">
</head>
<body>
<main class="page"><h1>${escapeHtml(title)}</h1>
<p class="lead">${escapeHtml(message)}</p>
</main>
</body>
</html>
`;
}
