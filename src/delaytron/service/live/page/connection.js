// Requests with the API key of this tab, and server-sent events that reconnect.

const KEY = "delaytron-key";
const SILENCE = 40_000; // milliseconds; the service sends a heartbeat every 15 seconds
const FIRST_WAIT = 500; // milliseconds before the first retry; doubled for each further one
const LONGEST_WAIT = 15_000;

let inMemory = null; // where the browser blocks session storage

export const key = {
  get() {
    try {
      return sessionStorage.getItem(KEY);
    } catch {
      return inMemory;
    }
  },
  set(value) {
    inMemory = value;
    try {
      if (value === null) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, value);
    } catch {
      // it is in memory
    }
  },
};

// Why the service refused: its status, what is wrong and what to do.
export class Refused extends Error {
  constructor(status, detail, retryAfter) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function request(path, signal) {
  const headers = key.get() === null ? {} : { Authorization: `Bearer ${key.get()}` };
  const response = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const seconds = Number(response.headers.get("Retry-After"));
  const said = [problem.detail, problem.hint].filter(Boolean).join("; ");
  const why = said || `the service answered ${response.status}; try again, or see its log`;
  throw new Refused(response.status, why, 1000 * seconds || 0);
}

export const ask = async (path, signal) => (await request(path, signal)).json();

// Read server-sent events: blocks of lines, with an empty line after each.
export async function* readEvents(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    yield* blocks.map(parseEvent).filter((event) => event.data !== undefined);
  }
}

function parseEvent(block) {
  const fields = block.split("\n").map((line) => /^(event|data): ?(.*)$/.exec(line)).filter(Boolean);
  const { event, data } = Object.fromEntries(fields.map(([, name, value]) => [name, value]));
  return { kind: event, data: data === undefined ? undefined : JSON.parse(data) };
}

// Wait; ends early if the machine is online again, or on abort.
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
    signal.addEventListener("abort", end);
    function end() {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resolve();
    }
  });
}

// Follow the events at a path and reconnect with backoff; `lost` gets the reason, and returns whether to retry.
export async function watch(path, signal, { take, lost }) {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    let problem = null; // the service may end the events by itself
    try {
      await follow(path, signal, (event) => {
        wait = FIRST_WAIT;
        take(event);
      });
    } catch (caught) {
      problem = caught;
    }
    if (signal.aborted || !lost(problem)) return;
    await pause(Math.max(wait, problem?.retryAfter ?? 0) * (0.75 + Math.random() / 2), signal);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

async function follow(path, signal, take) {
  const attempt = new AbortController();
  const stop = () => attempt.abort();
  let timer = setTimeout(stop, SILENCE);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, SILENCE);
  };
  signal.addEventListener("abort", stop);
  try {
    const response = await request(path, attempt.signal);
    for await (const event of readEvents(response.body, alive)) attemptTo(take, event);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    stop();
  }
}

// An error in the page must not end the connection.
function attemptTo(take, event) {
  try {
    take(event);
  } catch (problem) {
    reportError(problem);
  }
}
