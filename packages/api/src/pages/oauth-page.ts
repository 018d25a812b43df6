/** What a browser shows after an authorization server sent it back. The words may be a stranger's, so they are text only. */
export function renderSignInPage(title: string, words: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · Backplane</title>
<link rel="stylesheet" href="/static/backplane.css">
</head>
<body>
<main class="page"><h1>${escaped(title)}</h1>
<p class="lead">${escaped(words)}</p>
</main>
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
