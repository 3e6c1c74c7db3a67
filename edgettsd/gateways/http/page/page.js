"use strict";
// Plays what the gateway sends while it is made: samples by fetch, scheduled one after another in WebAudio. An audio
// element would wait for the end of a short stream, and media sources do not take raw samples everywhere.

const $ = (id) => document.getElementById(id);
const BYTES_A_SAMPLE = 2;
const LEAD_SECONDS = 0.05;

let playing = null;

function request(format) {
  const body = { input: $("text").value, response_format: format };
  if ($("voice").value) body.voice = $("voice").value;
  if ($("language").value) body.language = $("language").value;
  if ($("instructions").value) body.instructions = $("instructions").value;
  if (Number($("rate").value) !== 1) body.speed = Number($("rate").value);
  return body;
}

function headers() {
  const all = { "Content-Type": "application/json" };
  if ($("token").value) all.Authorization = `Bearer ${$("token").value}`;
  return all;
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { headers: headers(), ...options });
  if (answer.status === 401) {
    $("token").hidden = $("token-label").hidden = false;
  }
  if (!answer.ok) {
    let text = answer.statusText;
    try { text = (await answer.json()).error.message; } catch { /* an answer without a reason */ }
    throw new Error(text);
  }
  return answer;
}

class Wave {
  constructor(canvas) {
    this.canvas = canvas;
    this.peaks = [];
    this.draw();
  }

  add(samples) {
    const step = 480;
    for (let i = 0; i < samples.length; i += step) {
      let peak = 0;
      for (let k = i; k < Math.min(i + step, samples.length); k++) peak = Math.max(peak, Math.abs(samples[k]));
      this.peaks.push(peak);
    }
    this.draw();
  }

  draw() {
    const { width, height } = this.canvas;
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    const n = Math.max(this.peaks.length, 250);
    this.peaks.forEach((peak, i) => {
      const bar = Math.max(1, peak * height);
      context.fillRect((i * width) / n, (height - bar) / 2, Math.max(1, width / n - 0.5), bar);
    });
  }
}

class Player {
  constructor() {
    this.abort = new AbortController();
    this.audio = new AudioContext();
    this.sources = new Set();
    this.next = 0;
    this.stopped = false;
  }

  async run() {
    const began = performance.now();
    const wave = new Wave($("wave"));
    const answer = await ask("v1/audio/speech", {
      method: "POST", body: JSON.stringify(request("pcm")), signal: this.abort.signal,
    });
    const rate = Number(answer.headers.get("X-Sample-Rate"));
    const reader = answer.body.getReader();
    let rest = new Uint8Array(0), first = 0, total = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const data = new Uint8Array(rest.length + value.length);
      data.set(rest);
      data.set(value, rest.length);
      const whole = data.length - (data.length % BYTES_A_SAMPLE);
      rest = data.slice(whole);
      const view = new DataView(data.buffer, 0, whole);
      const samples = new Float32Array(whole / BYTES_A_SAMPLE);
      for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(i * BYTES_A_SAMPLE, true) / 32768;
      if (!samples.length) continue;
      first = first || performance.now() - began;
      total += samples.length;
      this.schedule(samples, rate);
      wave.add(samples);
      $("figures").textContent = `first sound after ${first.toFixed(0)} ms, ${(total / rate).toFixed(1)} s made`;
      document.body.dataset.firstSound = first.toFixed(0);
    }
    document.body.dataset.made = performance.now() - began;
    await this.heard();
  }

  schedule(samples, rate) {
    const buffer = this.audio.createBuffer(1, samples.length, rate);
    buffer.copyToChannel(samples, 0);
    const source = this.audio.createBufferSource();
    source.buffer = buffer;
    source.connect(this.audio.destination);
    this.next = Math.max(this.next, this.audio.currentTime + LEAD_SECONDS);
    source.start(this.next);
    this.next += buffer.duration;
    this.sources.add(source);
    source.onended = () => this.sources.delete(source);
  }

  async heard() {
    while (!this.stopped && this.audio.currentTime < this.next) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async stop() {
    if (this.stopped) return;
    this.stopped = true;
    this.abort.abort();
    this.sources.forEach((source) => source.stop());
    await this.audio.close();
  }
}

async function play(event) {
  event.preventDefault();
  await stop();
  const player = new Player();
  playing = player;
  $("error").textContent = $("figures").textContent = "";
  $("stop").disabled = false;
  document.body.dataset.playing = "true";
  try {
    await player.run();
  } catch (error) {
    if (!player.stopped) $("error").textContent = error.message;
  }
  if (playing === player) await stop();
}

async function stop() {
  const player = playing;
  playing = null;
  $("stop").disabled = true;
  document.body.dataset.playing = "false";
  if (player) await player.stop();
}

async function download() {
  $("error").textContent = "";
  const format = $("format").value;
  try {
    const answer = await ask("v1/audio/speech", { method: "POST", body: JSON.stringify(request(format)) });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = `speech.${format === "pcm" ? "raw" : format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  } catch (error) {
    $("error").textContent = error.message;
  }
}

function fill(select, values, kept) {
  const have = new Set([...select.options].map((option) => option.value));
  values.filter((value) => !have.has(value)).forEach((value) => select.add(new Option(value, value)));
  if (kept) select.value = kept;
}

async function refresh() {
  try {
    const state = await (await ask("v1/state")).json();
    const queue = state.queue ? `, ${state.queue} waiting` : "";
    $("state").textContent = state.model ? `${state.model}: ${state.state}${queue}` : state.state;
    fill($("format"), state.formats, $("format").value || "mp3");
    const { voices } = await (await ask("v1/voices")).json();
    fill($("voice"), voices.map((voice) => voice.id));
    fill($("language"), [...new Set(voices.flatMap((voice) => voice.languages))]);
  } catch (error) {
    $("state").textContent = error.message || "the gateway does not answer";
  }
  setTimeout(refresh, 2000);
}

$("form").addEventListener("submit", play);
$("stop").addEventListener("click", stop);
$("download").addEventListener("click", download);
$("rate").addEventListener("input", () => { $("rate-value").textContent = Number($("rate").value).toFixed(2); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
new Wave($("wave"));
refresh();
