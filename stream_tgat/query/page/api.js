// The service's calls, with its token where it has one, and its events as they come.

const KEY = "stream-tgat-token";
let asking = null;

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Asks for the token once, however many calls wait for it.
function askForToken(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    const value = document.getElementById("token-value");
    document.getElementById("token-wrong").hidden = !wasWrong;
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, value.value.trim());
      value.value = "";
      asking = null;
      resolve();
    }, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}

async function ask(path, options = {}) {
  for (;;) {
    const sent = headers();
    const answer = await fetch(path, { ...options, headers: { ...sent, ...options.headers } });
    if (answer.status !== 401) return answer;
    const now = sessionStorage.getItem(KEY);
    if (sent.Authorization === (now ? `Bearer ${now}` : undefined)) await askForToken(Boolean(now));
  }
}

export async function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  const answer = await ask(query ? `${path}?${query}` : path, { signal });
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(content.detail ?? content.reason ?? `${path}: status ${answer.status}`, answer.status);
  return content;
}

export const nodePath = (kind, id, rest = "") => `v1/nodes/${kind}/${encodeURIComponent(id)}${rest}`;

// EventSource cannot send a token, so the stream is read as it comes. tell: (kind, content); state: (text, isLive)
export async function follow(tell, state) {
  for (let pause = 1; ; pause = Math.min(2 * pause, 15)) {
    try {
      const answer = await ask("v1/events");
      if (!answer.ok) throw new Problem(`status ${answer.status}`, answer.status);
      state("live", true);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        pause = 1;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) tellOne(part, tell);
      }
    } catch (problem) {
      if (problem.name === "AbortError") return;
    }
    state("not connected", false);
    await new Promise((resolve) => setTimeout(resolve, 1000 * pause));
  }
}

function tellOne(part, tell) {
  let kind = "message";
  let data = "";
  for (const line of part.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (data) tell(kind, JSON.parse(data));
}
