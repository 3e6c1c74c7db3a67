"""Qwen3-TTS, 12 frames a second: conversion, random checkpoints, references and comparison."""
