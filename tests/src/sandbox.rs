pub struct Sandbox;
